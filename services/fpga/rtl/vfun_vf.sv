// One VF: its registers, its cores, its interrupt. It shares nothing with the
// others but the port, and its reset clears every bit that it keeps.
module vfun_vf #(
    parameter int unsigned VFS = 1
) (
    // Which one it is: constant, and a port, so that all are of one module.
    input  logic [15:0] number,
    input  logic        clk,
    input  logic        resetn,
    // A fault for tests: the cores stand still.
    input  logic        stuck,

    input  logic        write_enable,
    input  logic [11:0] write_address,
    input  logic [31:0] write_data,
    input  logic [3:0]  write_strobe,
    output logic        write_error,
    input  logic [11:0] read_address,
    output logic [31:0] read_data,
    output logic        read_error,

    output logic        irq
);
    // One copy of the simulator's code for all VFs.
    /* verilator no_inline_module */
    import vfun_fpga_pkg::*;

    logic [31:0] selected;
    logic [31:0] argument [4];
    logic        busy, done, irq_enable, irq_pending;
    logic [31:0] cycles;

    // ---- the cores
    logic        core_reset, start;
    logic        factorial_done, fibonacci_done, sha256_done, core_done;
    logic [63:0] factorial_result, fibonacci_result;
    logic [31:0] room;
    logic [31:0] digest [8];
    logic        word_valid;

    vfun_factorial factorial (
        .clk, .reset(core_reset), .enable(!stuck), .start(start && selected == FACTORIAL),
        .n({argument[1], argument[0]}), .repetitions({argument[3], argument[2]}),
        .done(factorial_done), .result(factorial_result)
    );
    vfun_fibonacci fibonacci (
        .clk, .reset(core_reset), .enable(!stuck), .start(start && selected == FIBONACCI),
        .n({argument[1], argument[0]}), .repetitions({argument[3], argument[2]}),
        .done(fibonacci_done), .result(fibonacci_result)
    );
    vfun_sha256 sha256 (
        .clk, .reset(core_reset), .enable(!stuck), .start(start && selected == SHA256),
        .length({argument[1], argument[0]}), .word_valid, .word(write_data), .room,
        .done(sha256_done), .digest
    );
    assign core_done = factorial_done || fibonacci_done || sha256_done;

    // ---- writes
    logic writes_argument, idle_only, known;
    assign writes_argument = write_address[11:4] == ARGUMENT[11:4];
    always_comb begin
        idle_only = 1'b0;
        known     = 1'b1;
        case (write_address)
            CONTROL: begin
                known     = write_data == CONTROL_START || write_data == CONTROL_RESET;
                idle_only = write_data == CONTROL_START;
                if (write_data == CONTROL_START && (selected < FACTORIAL || selected > SHA256)) known = 1'b0;
            end
            FUNCTION: begin
                known     = write_data <= SHA256;
                idle_only = 1'b1;
            end
            IRQ_ENABLE, IRQ: known = write_data[31:1] == '0;
            STREAM:          known = busy && room != 0;
            default: begin
                known     = writes_argument && write_address[1:0] == 2'b00;
                idle_only = 1'b1;
            end
        endcase
        write_error = !known || (idle_only && busy) || write_strobe != 4'hF;
    end

    logic write;
    assign write      = write_enable && !write_error;
    assign start      = write && write_address == CONTROL && write_data == CONTROL_START;
    assign word_valid = write && write_address == STREAM;
    assign core_reset = !resetn || (write && write_address == CONTROL && write_data == CONTROL_RESET);

    always_ff @(posedge clk) begin
        if (core_reset) begin
            selected    <= '0;
            busy        <= 1'b0;
            done        <= 1'b0;
            irq_enable  <= 1'b0;
            irq_pending <= 1'b0;
            cycles      <= '0;
            for (int i = 0; i < 4; i++) argument[i] <= '0;
        end else begin
            if (busy) cycles <= cycles + 1;
            if (core_done) begin
                busy        <= 1'b0;
                done        <= 1'b1;
                irq_pending <= 1'b1;
            end else if (write && write_address == IRQ && write_data[0]) begin
                irq_pending <= 1'b0;
            end
            if (start) begin
                busy        <= 1'b1;
                done        <= 1'b0;
                irq_pending <= 1'b0;
                cycles      <= '0;
            end
            if (write && write_address == FUNCTION)   selected   <= write_data;
            if (write && write_address == IRQ_ENABLE) irq_enable <= write_data[0];
            if (write && writes_argument)             argument[write_address[3:2]] <= write_data;
        end
    end

    assign irq = irq_enable && irq_pending;

    // ---- reads
    logic [63:0] result;
    assign result = selected == FACTORIAL ? factorial_result :
                    selected == FIBONACCI ? fibonacci_result : 64'd0;
    always_comb begin
        read_error = 1'b0;
        read_data  = 32'h0;
        case (read_address)
            ID:            read_data = ID_VALUE;
            VERSION:       read_data = VERSION_VALUE;
            VF:            read_data = {16'(VFS), number};
            FUNCTIONS:     read_data = (32'd1 << FACTORIAL) | (32'd1 << FIBONACCI) | (32'd1 << SHA256);
            STATUS:        read_data = {30'd0, done, busy};
            FUNCTION:      read_data = selected;
            IRQ_ENABLE:    read_data = {31'd0, irq_enable};
            IRQ:           read_data = {31'd0, irq_pending};
            ROOM:          read_data = busy ? room : 32'd0;
            CYCLES:        read_data = cycles;
            RESULT:        read_data = result[31:0];
            RESULT + 12'd4: read_data = result[63:32];
            default: begin
                if (read_address[11:4] == ARGUMENT[11:4] && read_address[1:0] == 2'b00)
                    read_data = argument[read_address[3:2]];
                else if (read_address[11:5] == DIGEST[11:5] && read_address[1:0] == 2'b00)
                    read_data = digest[read_address[4:2]];
                else
                    read_error = 1'b1;
            end
        endcase
    end
endmodule
