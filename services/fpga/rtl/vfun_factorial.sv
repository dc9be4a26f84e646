// n! modulo 2^64, computed `repetitions` times; one multiplication a cycle.
module vfun_factorial (
    input  logic        clk,
    input  logic        reset,
    input  logic        enable,
    input  logic        start,
    input  logic [63:0] n,
    input  logic [63:0] repetitions,
    output logic        done,
    output logic [63:0] result
);
    logic [63:0] factor, left, product;
    logic        running;

    always_ff @(posedge clk) begin
        if (reset) begin
            running <= 1'b0;
            done    <= 1'b0;
            factor  <= '0;
            left    <= '0;
            product <= '0;
            result  <= '0;
        end else if (enable) begin
            done <= 1'b0;
            if (start) begin
                running <= 1'b1;
                factor  <= n;
                left    <= repetitions == 0 ? 64'd1 : repetitions;
                product <= 64'd1;
                result  <= '0;
            end else if (running) begin
                // Downwards: upwards, a counter for n = 2^64 - 1 would never pass it.
                if (factor > 64'd1) begin
                    product <= product * factor;
                    factor  <= factor - 64'd1;
                end else if (left > 64'd1) begin
                    product <= 64'd1;
                    factor  <= n;
                    left    <= left - 64'd1;
                end else begin
                    running <= 1'b0;
                    done    <= 1'b1;
                    result  <= product;
                end
            end
        end
    end
endmodule
