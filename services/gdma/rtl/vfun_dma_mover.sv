// Moves one range of bytes to another by an AXI4 master of 64 bytes a beat, one
// beat a cycle. Both ends may begin at any byte: what is read is shifted to the
// destination's lanes, and strobes leave the bytes beside the range alone.
//
// Reads are asked for only where the buffer has room for what comes, so that
// the read channel is never held up; a burst stays within 4096 bytes, as AXI
// demands. Whatever goes wrong, each burst that was begun is finished: after an
// error, and after `stop`, with strobes that write nothing.
module vfun_dma_mover (
    input  logic         clk,
    input  logic         reset,

    // The ends are taken at `start`; the length is at least 1.
    input  logic         start,
    input  logic [63:0]  source,
    input  logic [63:0]  destination,
    input  logic [31:0]  length,
    // Write nothing more.
    input  logic         stop,
    // High for a cycle; the rest is as it is then until the next start.
    output logic         done,
    output logic         read_failed,
    output logic         write_failed,
    // Bytes that went out with a strobe.
    output logic [31:0]  moved,

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
    output logic         m_axi_bready
);
    // Beats of the buffer, and bursts that may wait for their answer.
    localparam logic [7:0] DEPTH = 8'd128;
    localparam logic [3:0] BURSTS = 4'd8;

    // Beats of the burst that begins at `at`, a beat of its 4096 bytes.
    function automatic logic [6:0] burst(input logic [5:0] at, input logic [26:0] left);
        logic [6:0] room;
        room = 7'd64 - {1'b0, at};
        return left < {20'd0, room} ? left[6:0] : room;
    endfunction

    function automatic logic [26:0] beats(input logic [5:0] at, input logic [31:0] bytes);
        return 27'(({1'b0, bytes} + {27'd0, at} + 33'd63) >> 6);
    endfunction

    logic         running, halted;
    // How far the lanes are shifted, and whether a beat of the destination
    // needs two of the source to begin with.
    logic [5:0]   shift;
    logic         late;
    // Reads: what is to be asked for, what is to come, what is to be handed on.
    logic [57:0]  read_at;
    logic [26:0]  reads, arrivals, hand_on;
    logic [511:0] carry;
    logic         have_carry, flush;
    logic [511:0] kept     [128];
    logic         kept_bad [128];
    logic [6:0]   head, tail;
    logic [7:0]   filled, reserved;
    // Writes: bursts to be announced, announced without data, without answer; beats to go.
    logic [57:0]  write_at;
    logic [26:0]  announces, writes;
    logic [3:0]   announced, unanswered;
    logic [5:0]   lane_beat;
    logic         burst_begins, first_beat;
    logic [5:0]   lead, pad;

    assign m_axi_rready = 1'b1;
    assign m_axi_bready = 1'b1;

    always_ff @(posedge clk) begin
        logic         hand, take, ask, announce;
        logic [6:0]   ask_beats, announce_beats;
        logic [63:0]  strobe;
        logic         bad;
        hand     = 1'b0;
        take     = 1'b0;
        ask      = 1'b0;
        announce = 1'b0;
        done     <= 1'b0;
        ask_beats      = burst(read_at[5:0], reads);
        announce_beats = burst(write_at[5:0], announces);
        if (reset) begin
            running       <= 1'b0;
            halted        <= 1'b0;
            read_failed   <= 1'b0;
            write_failed  <= 1'b0;
            moved         <= '0;
            flush         <= 1'b0;
            have_carry   <= 1'b0;
            carry        <= '0;
            filled        <= '0;
            reserved      <= '0;
            announced     <= '0;
            unanswered    <= '0;
            m_axi_arvalid <= 1'b0;
            m_axi_awvalid <= 1'b0;
            m_axi_wvalid  <= 1'b0;
            m_axi_wdata   <= '0;
        end else if (start) begin
            running      <= 1'b1;
            halted       <= 1'b0;
            read_failed  <= 1'b0;
            write_failed <= 1'b0;
            moved        <= '0;
            shift        <= source[5:0] - destination[5:0];
            late         <= source[5:0] > destination[5:0];
            read_at      <= source[63:6];
            reads        <= beats(source[5:0], length);
            arrivals     <= beats(source[5:0], length);
            hand_on      <= beats(destination[5:0], length);
            carry       <= '0;
            have_carry  <= 1'b0;
            flush        <= 1'b0;
            head         <= '0;
            tail         <= '0;
            filled       <= '0;
            reserved     <= '0;
            write_at     <= destination[63:6];
            announces    <= beats(destination[5:0], length);
            writes       <= beats(destination[5:0], length);
            announced    <= '0;
            unanswered   <= '0;
            lane_beat    <= destination[11:6];
            burst_begins <= 1'b1;
            first_beat   <= 1'b1;
            lead         <= destination[5:0];
            pad          <= 6'd0 - (destination[5:0] + length[5:0]);
        end else if (running) begin
            if (stop) halted <= 1'b1;

            // Ask for a burst of the source.
            if (!m_axi_arvalid || m_axi_arready) begin
                ask = reads != '0 && reserved + {1'b0, ask_beats} < DEPTH;
                m_axi_arvalid <= ask;
                if (ask) begin
                    m_axi_araddr <= {read_at, 6'd0};
                    m_axi_arlen  <= {1'b0, ask_beats} - 8'd1;
                    read_at      <= read_at + {51'd0, ask_beats};
                    reads        <= reads - {20'd0, ask_beats};
                end
            end

            // A beat of the source: shift it to the destination's lanes.
            if (m_axi_rvalid) begin
                hand        = !late || have_carry;
                carry      <= m_axi_rdata;
                have_carry <= 1'b1;
                arrivals    <= arrivals - 27'd1;
                if (m_axi_rresp != 2'b00) read_failed <= 1'b1;
                // The last one came: is there a rest of it?
                flush <= arrivals == 27'd1 && hand_on != (hand ? 27'd1 : 27'd0);
                if (shift == 6'd0) kept[tail] <= m_axi_rdata;
                else               kept[tail] <= 512'({m_axi_rdata, carry} >> {shift, 3'b000});
            end else if (flush) begin
                hand       = 1'b1;
                flush      <= 1'b0;
                kept[tail] <= carry >> {shift, 3'b000};
            end
            if (hand) begin
                kept_bad[tail] <= read_failed || (m_axi_rvalid && m_axi_rresp != 2'b00);
                tail           <= tail + 7'd1;
                hand_on        <= hand_on - 27'd1;
            end

            // Announce a burst of the destination.
            if (!m_axi_awvalid || m_axi_awready) begin
                announce = announces != '0 && unanswered < BURSTS;
                m_axi_awvalid <= announce;
                if (announce) begin
                    m_axi_awaddr <= {write_at, 6'd0};
                    m_axi_awlen  <= {1'b0, announce_beats} - 8'd1;
                    write_at     <= write_at + {51'd0, announce_beats};
                    announces    <= announces - {20'd0, announce_beats};
                end
            end

            // Send a beat to it.
            if (!m_axi_wvalid || m_axi_wready) begin
                take = filled != '0 && (!burst_begins || announced != '0);
                m_axi_wvalid <= take;
                if (take) begin
                    bad    = kept_bad[head] || halted || stop || write_failed;
                    strobe = '1;
                    if (first_beat) strobe &= ~64'd0 << lead;
                    if (writes == 27'd1) strobe &= ~64'd0 >> pad;
                    if (bad) begin
                        halted <= 1'b1;
                        strobe = '0;
                    end else begin
                        moved <= moved + 32'd64 - (first_beat ? {26'd0, lead} : 32'd0)
                            - (writes == 27'd1 ? {26'd0, pad} : 32'd0);
                    end
                    m_axi_wdata  <= kept[head];
                    m_axi_wstrb  <= strobe;
                    m_axi_wlast  <= lane_beat == 6'd63 || writes == 27'd1;
                    burst_begins <= lane_beat == 6'd63;
                    lane_beat    <= lane_beat + 6'd1;
                    head         <= head + 7'd1;
                    writes       <= writes - 27'd1;
                    first_beat   <= 1'b0;
                end
            end

            if (m_axi_bvalid && m_axi_bresp != 2'b00) write_failed <= 1'b1;
            filled     <= filled + {7'd0, hand} - {7'd0, take};
            reserved   <= reserved + (ask ? {1'b0, ask_beats} : 8'd0) - {7'd0, take};
            announced  <= announced + {3'd0, announce} - {3'd0, take && burst_begins};
            unanswered <= unanswered + {3'd0, announce} - {3'd0, m_axi_bvalid};
            // Each burst was answered, so all data went out.
            if (announces == '0 && !m_axi_awvalid && unanswered == '0) begin
                running <= 1'b0;
                done    <= 1'b1;
            end
        end
    end
endmodule
