// The table of an engine's windows: ranges of global addresses, of any node,
// that transfers may touch. A transfer's two ends are compared with LANES
// entries a cycle, from the first one on, until both are found.
module vfun_dma_windows #(
    parameter int unsigned WINDOWS = 128,
    parameter int unsigned LANES   = 16
) (
    input  logic        clk,
    input  logic        reset,

    // Word 0, 1: base; 2: length; 3: bit 0 valid. A valid entry keeps the others.
    input  logic        write_enable,
    input  logic [6:0]  write_index,
    input  logic [1:0]  write_word,
    input  logic [31:0] write_data,
    output logic        write_error,
    input  logic [6:0]  read_index,
    input  logic [1:0]  read_word,
    output logic [31:0] read_data,

    // `done` is high for a cycle; `allowed` says then whether both ends, which
    // stay as they are meanwhile, lie in windows.
    input  logic        start,
    input  logic [63:0] source,
    input  logic [63:0] destination,
    input  logic [31:0] length,
    output logic        done,
    output logic        allowed
);
    localparam int unsigned GROUPS = WINDOWS / LANES;

    logic [63:0] base  [WINDOWS];
    logic [31:0] bytes [WINDOWS];
    logic        valid [WINDOWS];

    assign write_error = write_word == 2'd3 ? write_data[31:1] != '0 : valid[write_index];

    always_comb begin
        case (read_word)
            2'd0:    read_data = base[read_index][31:0];
            2'd1:    read_data = base[read_index][63:32];
            2'd2:    read_data = bytes[read_index];
            default: read_data = {31'd0, valid[read_index]};
        endcase
    end

    // Whether `length` bytes from `at` on lie in entry `i`. No sum can wrap:
    // the offset is compared first.
    function automatic logic holds(input logic [6:0] i, input logic [63:0] at);
        logic [63:0] offset;
        offset = at - base[i];
        return valid[i] && at >= base[i] && offset <= {32'd0, bytes[i]}
            && offset + {32'd0, length} <= {32'd0, bytes[i]};
    endfunction

    logic       scanning, source_found, destination_found;
    logic [6:0] first;

    always_ff @(posedge clk) begin
        logic s, d;
        done <= 1'b0;
        if (reset) begin
            scanning          <= 1'b0;
            allowed           <= 1'b0;
            source_found      <= 1'b0;
            destination_found <= 1'b0;
            first             <= '0;
            for (int i = 0; i < WINDOWS; i++) begin
                base[i]  <= '0;
                bytes[i] <= '0;
                valid[i] <= 1'b0;
            end
        end else begin
            if (start) begin
                scanning          <= 1'b1;
                source_found      <= 1'b0;
                destination_found <= 1'b0;
                first             <= '0;
            end else if (scanning) begin
                s = source_found;
                d = destination_found;
                for (int i = 0; i < LANES; i++) begin
                    if (holds(first + 7'(i), source)) s = 1'b1;
                    if (holds(first + 7'(i), destination)) d = 1'b1;
                end
                source_found      <= s;
                destination_found <= d;
                first             <= first + 7'(LANES);
                if ((s && d) || first == 7'((GROUPS - 1) * LANES)) begin
                    scanning <= 1'b0;
                    done     <= 1'b1;
                    allowed  <= s && d;
                end
            end
            if (write_enable && !write_error) begin
                case (write_word)
                    2'd0:    base[write_index][31:0]  <= write_data;
                    2'd1:    base[write_index][63:32] <= write_data;
                    2'd2:    bytes[write_index]       <= write_data;
                    default: valid[write_index]       <= write_data[0];
                endcase
            end
        end
    end
endmodule
