// A DMA engine of one node. Nodes have memories in one global address space;
// the engine moves bytes between its own node's memory and any node's, by its
// AXI4 master. Software drives it by the AXI4-Lite port: it registers windows,
// queues descriptors, and takes their completions, in the order of the
// descriptors. The map is in vfun_dma_pkg.sv.
//
// Addresses without a register, unaligned ones, writes of less than a word, of
// wrong values and at the wrong moment are answered with SLVERR and change
// nothing.
//
// CONTROL_RESET forgets everything at once. A descriptor that is being moved
// runs out without writing anything more, because bursts that were begun must
// be finished; STATUS_BUSY says until when, and there is no completion of it.
module vfun_dma #(
    parameter int unsigned NODES   = 4,
    parameter int unsigned WINDOWS = 128,
    parameter int unsigned QUEUE   = 16
) (
    input  logic         clk,
    input  logic         resetn,
    // Which node it is, from 1: constant, and a port, so that all engines are of one module.
    input  logic [15:0]  node,
    // Faults for tests; tie to 0 on a board. Bit 0: nothing is moved. Bit 1:
    // the port takes and answers nothing.
    input  logic [1:0]   fault,

    input  logic [11:0]  s_axi_awaddr,
    input  logic         s_axi_awvalid,
    output logic         s_axi_awready,
    input  logic [31:0]  s_axi_wdata,
    input  logic [3:0]   s_axi_wstrb,
    input  logic         s_axi_wvalid,
    output logic         s_axi_wready,
    output logic [1:0]   s_axi_bresp,
    output logic         s_axi_bvalid,
    input  logic         s_axi_bready,
    input  logic [11:0]  s_axi_araddr,
    input  logic         s_axi_arvalid,
    output logic         s_axi_arready,
    output logic [31:0]  s_axi_rdata,
    output logic [1:0]   s_axi_rresp,
    output logic         s_axi_rvalid,
    input  logic         s_axi_rready,

    // The fabric: all bursts are of whole beats of 64 bytes, with rising addresses.
    output logic [63:0]  m_axi_araddr,
    output logic [7:0]   m_axi_arlen,
    output logic         m_axi_arvalid,
    input  logic         m_axi_arready,
    input  logic [511:0] m_axi_rdata,
    input  logic [1:0]   m_axi_rresp,
    input  logic         m_axi_rvalid,
    output logic         m_axi_rready,
    output logic [63:0]  m_axi_awaddr,
    output logic [7:0]   m_axi_awlen,
    output logic         m_axi_awvalid,
    input  logic         m_axi_awready,
    output logic [511:0] m_axi_wdata,
    output logic [63:0]  m_axi_wstrb,
    output logic         m_axi_wlast,
    output logic         m_axi_wvalid,
    input  logic         m_axi_wready,
    input  logic [1:0]   m_axi_bresp,
    input  logic         m_axi_bvalid,
    output logic         m_axi_bready,

    // High as long as a completion waits and IRQ_ENABLE is set.
    output logic         irq
);
    import vfun_dma_pkg::*;

    localparam int unsigned SLOT_BITS = $clog2(QUEUE);

    logic        write_enable, write_error, read_error;
    logic [11:0] write_address, read_address;
    logic [31:0] write_data, read_data;
    logic [3:0]  write_strobe;
    /* verilator lint_off UNUSEDSIGNAL */
    logic        read_enable;  // reading changes nothing here
    /* verilator lint_on UNUSEDSIGNAL */

    vfun_axil #(.ADDRESS_BITS(12)) port (
        .clk, .resetn, .stuck(fault[1]),
        .s_axi_awaddr, .s_axi_awvalid, .s_axi_awready, .s_axi_wdata, .s_axi_wstrb, .s_axi_wvalid, .s_axi_wready,
        .s_axi_bresp, .s_axi_bvalid, .s_axi_bready, .s_axi_araddr, .s_axi_arvalid, .s_axi_arready,
        .s_axi_rdata, .s_axi_rresp, .s_axi_rvalid, .s_axi_rready,
        .write_enable, .write_address, .write_data, .write_strobe, .write_error,
        .read_enable, .read_address, .read_data, .read_error
    );

    // ---- what software prepares
    logic [63:0] source, destination;
    logic [31:0] length, tag;
    logic        irq_enable;

    // ---- descriptors: queued, then one active, then completions. A slot is
    // taken from the start until the completion was taken.
    logic [63:0]          queue_source [QUEUE];
    logic [63:0]          queue_destination [QUEUE];
    logic [31:0]          queue_length [QUEUE];
    logic [31:0]          queue_tag [QUEUE];
    logic [31:0]          done_tag [QUEUE];
    logic [2:0]           done_status [QUEUE];
    logic [31:0]          done_moved [QUEUE];
    logic [31:0]          done_cycles [QUEUE];
    logic [SLOT_BITS-1:0] queue_in, queue_out, done_in, done_out;
    logic [SLOT_BITS:0]   queued, completed, taken;

    typedef enum logic [1:0] { IDLE, CHECK, MOVE } state_t;
    state_t      state;
    logic        dropped;  // reset while it is moved
    logic [63:0] active_source, active_destination;
    logic [31:0] active_length, active_tag, cycles;

    // ---- writes
    logic write, start, take, clear, windows_error, known;
    always_comb begin
        case (write_address)
            CONTROL: known = (write_data == CONTROL_START && taken != (SLOT_BITS + 1)'(QUEUE) && !dropped)
                || write_data == CONTROL_RESET
                || (write_data == CONTROL_TAKE && completed != '0);
            SOURCE, SOURCE + 12'd4, DESTINATION, DESTINATION + 12'd4, LENGTH, TAG: known = 1'b1;
            IRQ_ENABLE: known = write_data[31:1] == '0;
            default:    known = write_address[11] && write_address[1:0] == 2'b00 && !windows_error;
        endcase
        write_error = !known || write_strobe != 4'hF;
    end
    assign write = write_enable && !write_error;
    assign start = write && write_address == CONTROL && write_data == CONTROL_START;
    assign take  = write && write_address == CONTROL && write_data == CONTROL_TAKE;
    assign clear = !resetn || (write && write_address == CONTROL && write_data == CONTROL_RESET);

    // ---- whether the active one may move
    logic        check, checked, allowed;
    logic [31:0] windows_data;
    vfun_dma_windows #(.WINDOWS(WINDOWS)) windows (
        .clk, .reset(clear),
        .write_enable(write && write_address[11]), .write_index(write_address[10:4]),
        .write_word(write_address[3:2]), .write_data, .write_error(windows_error),
        .read_index(read_address[10:4]), .read_word(read_address[3:2]), .read_data(windows_data),
        .start(check), .source(active_source), .destination(active_destination), .length(active_length),
        .done(checked), .allowed(allowed)
    );

    function automatic logic is_local();
        return active_source[63:40] == {8'd0, node} || active_destination[63:40] == {8'd0, node};
    endfunction
    function automatic logic overlaps();
        return active_source < active_destination + {32'd0, active_length}
            && active_destination < active_source + {32'd0, active_length};
    endfunction

    // ---- the mover
    logic        move, moved_all, read_failed, write_failed;
    logic [31:0] moved;
    vfun_dma_mover mover (
        .clk, .reset(!resetn), .start(move), .source(active_source), .destination(active_destination),
        .length(active_length), .stop(dropped), .done(moved_all), .read_failed, .write_failed, .moved,
        .m_axi_araddr, .m_axi_arlen, .m_axi_arvalid, .m_axi_arready,
        .m_axi_rdata, .m_axi_rresp, .m_axi_rvalid, .m_axi_rready,
        .m_axi_awaddr, .m_axi_awlen, .m_axi_awvalid, .m_axi_awready,
        .m_axi_wdata, .m_axi_wstrb, .m_axi_wlast, .m_axi_wvalid, .m_axi_wready,
        .m_axi_bresp, .m_axi_bvalid, .m_axi_bready
    );

    always_ff @(posedge clk) begin
        logic        finish;
        logic [2:0]  with_status;
        finish      = 1'b0;
        with_status = 3'(DONE_OKAY);
        check       <= 1'b0;
        move        <= 1'b0;
        if (!resetn || (clear && !(state == MOVE && !moved_all))) begin
            state              <= IDLE;
            dropped            <= 1'b0;
            active_source      <= '0;
            active_destination <= '0;
            active_length      <= '0;
            active_tag         <= '0;
            cycles             <= '0;
        end else if (clear) begin
            dropped <= 1'b1;
        end else begin
            if (state != IDLE) cycles <= cycles + 32'd1;
            case (state)
                IDLE: if (queued != '0 && !fault[0]) begin
                    active_source      <= queue_source[queue_out];
                    active_destination <= queue_destination[queue_out];
                    active_length      <= queue_length[queue_out];
                    active_tag         <= queue_tag[queue_out];
                    cycles             <= 32'd1;
                    check              <= 1'b1;
                    state              <= CHECK;
                end
                CHECK: if (checked) begin
                    finish = 1'b1;
                    if (!is_local()) with_status = 3'(DONE_NODE);
                    else if (!allowed) with_status = 3'(DONE_WINDOW);
                    else if (active_length == '0) with_status = 3'(DONE_OKAY);
                    else if (overlaps()) with_status = 3'(DONE_OVERLAP);
                    else begin
                        finish = 1'b0;
                        move  <= 1'b1;
                        state <= MOVE;
                    end
                end
                default: if (moved_all) begin
                    finish      = !dropped;
                    with_status = 3'(read_failed ? DONE_READ : write_failed ? DONE_WRITE : DONE_OKAY);
                    dropped    <= 1'b0;
                    state      <= IDLE;
                    active_tag <= '0;
                end
            endcase
            if (finish) begin
                state      <= IDLE;
                active_tag <= '0;
            end
        end

        if (clear) begin
            queue_in  <= '0;
            queue_out <= '0;
            done_in   <= '0;
            done_out  <= '0;
            queued    <= '0;
            completed <= '0;
            taken     <= '0;
        end else begin
            if (start) begin
                queue_source[queue_in]      <= source;
                queue_destination[queue_in] <= destination;
                queue_length[queue_in]      <= length;
                queue_tag[queue_in]         <= tag;
                queue_in                    <= queue_in + 1'b1;
            end
            if (state == IDLE && queued != '0 && !fault[0]) queue_out <= queue_out + 1'b1;
            if (finish) begin
                done_tag[done_in]    <= active_tag;
                done_status[done_in] <= with_status;
                done_moved[done_in]  <= state == MOVE ? moved : 32'd0;
                done_cycles[done_in] <= cycles;
                done_in              <= done_in + 1'b1;
            end
            if (take) done_out <= done_out + 1'b1;
            queued    <= queued + (SLOT_BITS + 1)'(start)
                - (SLOT_BITS + 1)'(state == IDLE && queued != '0 && !fault[0]);
            completed <= completed + (SLOT_BITS + 1)'(finish) - (SLOT_BITS + 1)'(take);
            taken     <= taken + (SLOT_BITS + 1)'(start) - (SLOT_BITS + 1)'(take);
        end
    end

    always_ff @(posedge clk) begin
        if (clear) begin
            source      <= '0;
            destination <= '0;
            length      <= '0;
            tag         <= '0;
            irq_enable  <= 1'b0;
        end else if (write) begin
            case (write_address)
                SOURCE:              source[31:0]       <= write_data;
                SOURCE + 12'd4:      source[63:32]      <= write_data;
                DESTINATION:         destination[31:0]  <= write_data;
                DESTINATION + 12'd4: destination[63:32] <= write_data;
                LENGTH:              length             <= write_data;
                TAG:                 tag                <= write_data;
                IRQ_ENABLE:          irq_enable         <= write_data[0];
                default: ;
            endcase
        end
    end

    assign irq = irq_enable && completed != '0;

    // ---- reads
    logic some;
    assign some = completed != '0;
    always_comb begin
        read_error = 1'b0;
        read_data  = 32'h0;
        case (read_address)
            ID:                  read_data = ID_VALUE;
            VERSION:             read_data = VERSION_VALUE;
            NODE:                read_data = {16'(NODES), node};
            CAPACITY:            read_data = {16'(WINDOWS), 16'(QUEUE)};
            STATUS: begin
                if (queued != '0 || state != IDLE) read_data |= STATUS_BUSY;
                if (some) read_data |= STATUS_DONE;
                if (some && {29'd0, done_status[done_out]} != DONE_OKAY) read_data |= STATUS_ERROR;
            end
            IRQ_ENABLE:          read_data = {31'd0, irq_enable};
            IRQ:                 read_data = {31'd0, irq};
            SOURCE:              read_data = source[31:0];
            SOURCE + 12'd4:      read_data = source[63:32];
            DESTINATION:         read_data = destination[31:0];
            DESTINATION + 12'd4: read_data = destination[63:32];
            LENGTH:              read_data = length;
            TAG:                 read_data = tag;
            ROOM:                read_data = dropped ? 32'd0 : 32'(QUEUE) - 32'(taken);
            DONE_TAG:            read_data = some ? done_tag[done_out] : 32'd0;
            DONE_STATUS:         read_data = some ? {29'd0, done_status[done_out]} : 32'd0;
            DONE_MOVED:          read_data = some ? done_moved[done_out] : 32'd0;
            DONE_CYCLES:         read_data = some ? done_cycles[done_out] : 32'd0;
            ACTIVE_TAG:          read_data = dropped ? 32'd0 : active_tag;
            MOVED:               read_data = state == MOVE && !dropped ? moved : 32'd0;
            CYCLES:              read_data = state != IDLE && !dropped ? cycles : 32'd0;
            default: begin
                if (read_address[11] && read_address[1:0] == 2'b00) read_data = windows_data;
                else read_error = 1'b1;
            end
        endcase
    end
endmodule
