// SHA-256 (FIPS 180-4) of `length` bytes that come as words of four, the
// first byte lowest; bytes of the last word beyond the length are ignored. The
// core pads by itself. One round a cycle; while a block is worked on, the FIFO
// takes the words of the next.
module vfun_sha256 #(
    parameter int unsigned FIFO_WORDS = 16
) (
    input  logic        clk,
    input  logic        reset,
    input  logic        enable,
    input  logic        start,
    input  logic [63:0] length,
    // A word of the message; only where `room` is not 0.
    input  logic        word_valid,
    input  logic [31:0] word,
    output logic [31:0] room,
    output logic        done,
    output logic [31:0] digest [8]
);
    localparam int unsigned POINTER_BITS = $clog2(FIFO_WORDS);

    typedef enum logic [1:0] {IDLE, FILL, ROUNDS, ADD} state_t;
    state_t      state;

    logic [31:0]             fifo [FIFO_WORDS];
    logic [POINTER_BITS-1:0] fifo_in, fifo_out;
    logic [POINTER_BITS:0]   fifo_count;
    // Words that the message still has, and bytes that the core still wants.
    logic [61:0]             expected;
    logic [63:0]             left;
    logic [60:0]             bytes;

    logic [31:0] h [8];
    logic [31:0] v [8];
    logic [31:0] w [16];
    logic [3:0]  slot;
    logic [5:0]  round;
    logic        ended;       // the bit after the message's end is in the block
    logic        length_high; // so is the upper half of its length
    logic        last;        // so is the lower

    function automatic logic [31:0] rotated(input logic [31:0] x, input int unsigned by);
        return (x >> by) | (x << (32 - by));
    endfunction

    function automatic logic [31:0] big_endian(input logic [31:0] x);
        return {x[7:0], x[15:8], x[23:16], x[31:24]};
    endfunction

    function automatic logic [31:0] initial_hash(input logic [2:0] i);
        case (i)
            3'd0: return 32'h6a09e667;
            3'd1: return 32'hbb67ae85;
            3'd2: return 32'h3c6ef372;
            3'd3: return 32'ha54ff53a;
            3'd4: return 32'h510e527f;
            3'd5: return 32'h9b05688c;
            3'd6: return 32'h1f83d9ab;
            3'd7: return 32'h5be0cd19;
        endcase
    endfunction

    localparam logic [31:0] K [64] = '{
        32'h428a2f98, 32'h71374491, 32'hb5c0fbcf, 32'he9b5dba5, 32'h3956c25b, 32'h59f111f1, 32'h923f82a4, 32'hab1c5ed5,
        32'hd807aa98, 32'h12835b01, 32'h243185be, 32'h550c7dc3, 32'h72be5d74, 32'h80deb1fe, 32'h9bdc06a7, 32'hc19bf174,
        32'he49b69c1, 32'hefbe4786, 32'h0fc19dc6, 32'h240ca1cc, 32'h2de92c6f, 32'h4a7484aa, 32'h5cb0a9dc, 32'h76f988da,
        32'h983e5152, 32'ha831c66d, 32'hb00327c8, 32'hbf597fc7, 32'hc6e00bf3, 32'hd5a79147, 32'h06ca6351, 32'h14292967,
        32'h27b70a85, 32'h2e1b2138, 32'h4d2c6dfc, 32'h53380d13, 32'h650a7354, 32'h766a0abb, 32'h81c2c92e, 32'h92722c85,
        32'ha2bfe8a1, 32'ha81a664b, 32'hc24b8b70, 32'hc76c51a3, 32'hd192e819, 32'hd6990624, 32'hf40e3585, 32'h106aa070,
        32'h19a4c116, 32'h1e376c08, 32'h2748774c, 32'h34b0bcb5, 32'h391c0cb3, 32'h4ed8aa4a, 32'h5b9cca4f, 32'h682e6ff3,
        32'h748f82ee, 32'h78a5636f, 32'h84c87814, 32'h8cc70208, 32'h90befffa, 32'ha4506ceb, 32'hbef9a3f7, 32'hc67178f2
    };

    // Words that may be written now: what the FIFO has room for, but not beyond
    // the message's end.
    logic [31:0] fifo_room;
    assign fifo_room = FIFO_WORDS - 32'(fifo_count);
    assign room = expected < 62'(fifo_room) ? expected[31:0] : fifo_room;

    // The next word of the block, if there is one.
    logic        next_valid, take;
    logic [31:0] next, head;
    assign head = big_endian(fifo[fifo_out]);
    assign take = enable && state == FILL && left != 0 && fifo_count != 0;
    always_comb begin
        next_valid = 1'b1;
        next       = 32'h0;
        if (left != 0) begin
            next_valid = fifo_count != 0;
            case (left)
                64'd1:   next = {head[31:24], 24'h800000};
                64'd2:   next = {head[31:16], 16'h8000};
                64'd3:   next = {head[31:8], 8'h80};
                default: next = head;
            endcase
        end else if (!ended) begin
            next = 32'h8000_0000;
        end else if (slot == 4'd14) begin
            next = bytes[60:29];
        end else if (slot == 4'd15 && length_high) begin
            next = {bytes[28:0], 3'b000};
        end
    end

    // One round; functions, so that a simulation computes them in rounds only.
    function automatic logic [31:0] first_sum(
        input logic [31:0] e, input logic [31:0] f, input logic [31:0] g, input logic [31:0] h7,
        input logic [31:0] k, input logic [31:0] w0
    );
        return h7 + (rotated(e, 6) ^ rotated(e, 11) ^ rotated(e, 25)) + ((e & f) ^ (~e & g)) + k + w0;
    endfunction

    function automatic logic [31:0] second_sum(input logic [31:0] a, input logic [31:0] b, input logic [31:0] c);
        return (rotated(a, 2) ^ rotated(a, 13) ^ rotated(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    endfunction

    function automatic logic [31:0] schedule(
        input logic [31:0] w0, input logic [31:0] w1, input logic [31:0] w9, input logic [31:0] w14
    );
        return (rotated(w14, 17) ^ rotated(w14, 19) ^ (w14 >> 10)) + w9
            + (rotated(w1, 7) ^ rotated(w1, 18) ^ (w1 >> 3)) + w0;
    endfunction

    always_ff @(posedge clk) begin
        if (reset) begin
            state       <= IDLE;
            done        <= 1'b0;
            fifo_in     <= '0;
            fifo_out    <= '0;
            fifo_count  <= '0;
            expected    <= '0;
            left        <= '0;
            bytes       <= '0;
            slot        <= '0;
            round       <= '0;
            ended       <= 1'b0;
            length_high <= 1'b0;
            last        <= 1'b0;
            for (int i = 0; i < FIFO_WORDS; i++) fifo[i] <= '0;
            for (int i = 0; i < 16; i++) w[i] <= '0;
            for (int i = 0; i < 8; i++) begin
                h[i]      <= '0;
                v[i]      <= '0;
                digest[i] <= '0;
            end
        end else begin
            // The FIFO takes words even from a core that stands still, as long as it has room.
            if (word_valid && room != 0) begin
                fifo[fifo_in] <= word;
                fifo_in       <= fifo_in + 1'b1;
                expected      <= expected - 1'b1;
            end
            if (take) begin
                fifo[fifo_out] <= '0;
                fifo_out       <= fifo_out + 1'b1;
            end
            fifo_count <= fifo_count + (POINTER_BITS + 1)'(word_valid && room != 0) - (POINTER_BITS + 1)'(take);

            if (enable) begin
                done <= 1'b0;
                case (state)
                    IDLE: begin
                        if (start) begin
                            state       <= FILL;
                            expected    <= length[63:2] + 62'(length[1:0] != 0);
                            left        <= length;
                            bytes       <= length[60:0];
                            slot        <= '0;
                            ended       <= 1'b0;
                            length_high <= 1'b0;
                            last        <= 1'b0;
                            for (int i = 0; i < 8; i++) begin
                                h[i]      <= initial_hash(i[2:0]);
                                v[i]      <= initial_hash(i[2:0]);
                                digest[i] <= '0;
                            end
                        end
                    end
                    FILL: begin
                        if (next_valid) begin
                            for (int i = 0; i < 15; i++) w[i] <= w[i + 1];
                            w[15] <= next;
                            if (left != 0) begin
                                left  <= left < 64'd4 ? 64'd0 : left - 64'd4;
                                ended <= left < 64'd4;
                            end else begin
                                ended <= 1'b1;
                            end
                            if (ended && slot == 4'd14) length_high <= 1'b1;
                            if (length_high && slot == 4'd15) last <= 1'b1;
                            slot <= slot + 4'd1;
                            if (slot == 4'd15) begin
                                state <= ROUNDS;
                                round <= '0;
                            end
                        end
                    end
                    ROUNDS: begin
                        v[0] <= first_sum(v[4], v[5], v[6], v[7], K[round], w[0]) + second_sum(v[0], v[1], v[2]);
                        v[4] <= v[3] + first_sum(v[4], v[5], v[6], v[7], K[round], w[0]);
                        for (int i = 1; i < 4; i++) v[i] <= v[i - 1];
                        for (int i = 5; i < 8; i++) v[i] <= v[i - 1];
                        for (int i = 0; i < 15; i++) w[i] <= w[i + 1];
                        w[15] <= schedule(w[0], w[1], w[9], w[14]);
                        round <= round + 6'd1;
                        if (round == 6'd63) state <= ADD;
                    end
                    ADD: begin
                        for (int i = 0; i < 8; i++) begin
                            h[i] <= h[i] + v[i];
                            v[i] <= h[i] + v[i];
                            if (last) digest[i] <= big_endian(h[i] + v[i]);
                        end
                        state <= last ? IDLE : FILL;
                        done  <= last;
                    end
                endcase
            end
        end
    end
endmodule
