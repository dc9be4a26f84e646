// The register map of one engine: offsets in its window of 4096 bytes, and what
// the bits mean. services/gdma/src/registers.rs says the same to the library; a
// test compares the two. All registers are 32 bits and are written whole; two
// of them make a 64-bit number, the low word first.
package vfun_dma_pkg;
    // Reads "GDM1".
    localparam logic [31:0] ID_VALUE      = 32'h314D_4447;
    localparam logic [31:0] VERSION_VALUE = 32'h0001_0000;

    localparam logic [11:0] ID          = 12'h000;  // ro
    localparam logic [11:0] VERSION     = 12'h004;  // ro, major << 16 | minor
    localparam logic [11:0] NODE        = 12'h008;  // ro, nodes of the address space << 16 | this engine's
    localparam logic [11:0] CAPACITY    = 12'h00C;  // ro, entries of WINDOWS << 16 | descriptors at once
    localparam logic [11:0] CONTROL     = 12'h010;  // wo, CONTROL_*; one bit at a time
    localparam logic [11:0] STATUS      = 12'h014;  // ro, STATUS_*
    localparam logic [11:0] IRQ_ENABLE  = 12'h018;  // rw, bit 0
    localparam logic [11:0] IRQ         = 12'h01C;  // ro, bit 0: the line is high
    localparam logic [11:0] SOURCE      = 12'h020;  // rw, 2 words: a global address
    localparam logic [11:0] DESTINATION = 12'h028;  // rw, 2 words: a global address
    localparam logic [11:0] LENGTH      = 12'h030;  // rw, bytes
    localparam logic [11:0] TAG         = 12'h034;  // rw, comes back with the completion
    localparam logic [11:0] ROOM        = 12'h038;  // ro, descriptors that may be started now
    localparam logic [11:0] DONE_TAG    = 12'h040;  // ro, of the oldest completion; 0 if there is none
    localparam logic [11:0] DONE_STATUS = 12'h044;  // ro, of the same: DONE_*
    localparam logic [11:0] DONE_MOVED  = 12'h048;  // ro, of the same: bytes that were moved
    localparam logic [11:0] DONE_CYCLES = 12'h04C;  // ro, of the same: clock cycles that it took
    localparam logic [11:0] ACTIVE_TAG  = 12'h050;  // ro, of the descriptor that is being moved; 0 if there is none
    localparam logic [11:0] MOVED       = 12'h054;  // ro, its bytes up to now
    localparam logic [11:0] CYCLES      = 12'h058;  // ro, its clock cycles up to now
    localparam logic [11:0] WINDOWS     = 12'h800;  // rw, entries of 4 words: base (2), length, valid

    localparam logic [31:0] CONTROL_START = 32'h1;  // queue SOURCE, DESTINATION, LENGTH, TAG
    localparam logic [31:0] CONTROL_RESET = 32'h2;
    localparam logic [31:0] CONTROL_TAKE  = 32'h4;  // drop the oldest completion

    localparam logic [31:0] STATUS_BUSY  = 32'h1;  // something is moved or waits for it
    localparam logic [31:0] STATUS_DONE  = 32'h2;  // a completion waits
    localparam logic [31:0] STATUS_ERROR = 32'h4;  // and it is not DONE_OKAY

    localparam logic [31:0] DONE_OKAY    = 32'd0;
    localparam logic [31:0] DONE_NODE    = 32'd1;  // neither end is on this node
    localparam logic [31:0] DONE_WINDOW  = 32'd2;  // an end is outside all registered windows
    localparam logic [31:0] DONE_OVERLAP = 32'd3;  // the ends overlap
    localparam logic [31:0] DONE_READ    = 32'd4;  // the memory refused to be read
    localparam logic [31:0] DONE_WRITE   = 32'd5;  // the memory refused to be written

    // A global address: the node above these bits, its memory's byte in them.
    localparam logic [31:0] NODE_SHIFT = 32'd40;
endpackage
