// The nth Fibonacci number modulo 2^64, computed `repetitions` times; one
// addition a cycle.
module vfun_fibonacci (
    input  logic        clk,
    input  logic        reset,
    input  logic        enable,
    input  logic        start,
    input  logic [63:0] n,
    input  logic [63:0] repetitions,
    output logic        done,
    output logic [63:0] result
);
    logic [63:0] steps, left, current, following;
    logic        running;

    always_ff @(posedge clk) begin
        if (reset) begin
            running   <= 1'b0;
            done      <= 1'b0;
            steps     <= '0;
            left      <= '0;
            current   <= '0;
            following <= '0;
            result    <= '0;
        end else if (enable) begin
            done <= 1'b0;
            if (start) begin
                running   <= 1'b1;
                steps     <= n;
                left      <= repetitions == 0 ? 64'd1 : repetitions;
                current   <= 64'd0;
                following <= 64'd1;
                result    <= '0;
            end else if (running) begin
                if (steps != 0) begin
                    current   <= following;
                    following <= current + following;
                    steps     <= steps - 64'd1;
                end else if (left > 64'd1) begin
                    current   <= 64'd0;
                    following <= 64'd1;
                    steps     <= n;
                    left      <= left - 64'd1;
                end else begin
                    running <= 1'b0;
                    done    <= 1'b1;
                    result  <= current;
                end
            end
        end
    end
endmodule
