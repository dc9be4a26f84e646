// The register map of one VF: offsets in its window of 4096 bytes, and what
// the bits mean. services/fpga/src/registers.rs says the same to the driver;
// a test compares the two. All registers are 32 bits and are written whole.
package vfun_fpga_pkg;
    // Reads "VFN1".
    localparam logic [31:0] ID_VALUE      = 32'h314E_4656;
    localparam logic [31:0] VERSION_VALUE = 32'h0001_0000;

    localparam logic [11:0] ID         = 12'h000;  // ro
    localparam logic [11:0] VERSION    = 12'h004;  // ro, major << 16 | minor
    localparam logic [11:0] VF         = 12'h008;  // ro, VFs of the device << 16 | this one's number
    localparam logic [11:0] FUNCTIONS  = 12'h00C;  // ro, bit f: has function f
    localparam logic [11:0] CONTROL    = 12'h010;  // wo, CONTROL_*; one bit at a time
    localparam logic [11:0] STATUS     = 12'h014;  // ro, bit 0 busy, bit 1 done
    localparam logic [11:0] FUNCTION   = 12'h018;  // rw while idle
    localparam logic [11:0] IRQ_ENABLE = 12'h01C;  // rw, bit 0
    localparam logic [11:0] IRQ        = 12'h020;  // bit 0: pending; write 1 to clear
    localparam logic [11:0] ROOM       = 12'h024;  // ro, words that STREAM takes now
    localparam logic [11:0] CYCLES     = 12'h028;  // ro, clock cycles of this or the last computation
    localparam logic [11:0] ARGUMENT   = 12'h040;  // rw while idle, 4 words: two 64-bit numbers, low words first
    localparam logic [11:0] RESULT     = 12'h080;  // ro, 2 words, low first
    localparam logic [11:0] DIGEST     = 12'h0C0;  // ro, 8 words, the first bytes in the first
    localparam logic [11:0] STREAM     = 12'h100;  // wo, data for the computation under way; the first byte is the lowest

    localparam logic [31:0] CONTROL_START = 32'h1;
    localparam logic [31:0] CONTROL_RESET = 32'h2;

    localparam logic [31:0] FACTORIAL = 32'd1;
    localparam logic [31:0] FIBONACCI = 32'd2;
    localparam logic [31:0] SHA256    = 32'd3;

    // AXI's answers.
    localparam logic [1:0] OKAY   = 2'b00;
    localparam logic [1:0] SLVERR = 2'b10;
endpackage
