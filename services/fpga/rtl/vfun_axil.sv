// The slave end of an AXI4-Lite port: turns its five channels into one write
// and one read a cycle at most. Address and data of a write may come in either
// order or together; a write and a read may be under way at the same time, and
// each channel takes one transfer a cycle as long as answers are taken.
//
// Nothing of a transfer stays behind when its answer was taken: the next one
// may be another VF's.
module vfun_axil #(
    parameter int unsigned ADDRESS_BITS = 16
) (
    input  logic                    clk,
    input  logic                    resetn,
    // A fault for tests: take nothing and answer nothing.
    input  logic                    stuck,

    input  logic [ADDRESS_BITS-1:0] s_axi_awaddr,
    input  logic                    s_axi_awvalid,
    output logic                    s_axi_awready,
    input  logic [31:0]             s_axi_wdata,
    input  logic [3:0]              s_axi_wstrb,
    input  logic                    s_axi_wvalid,
    output logic                    s_axi_wready,
    output logic [1:0]              s_axi_bresp,
    output logic                    s_axi_bvalid,
    input  logic                    s_axi_bready,
    input  logic [ADDRESS_BITS-1:0] s_axi_araddr,
    input  logic                    s_axi_arvalid,
    output logic                    s_axi_arready,
    output logic [31:0]             s_axi_rdata,
    output logic [1:0]              s_axi_rresp,
    output logic                    s_axi_rvalid,
    input  logic                    s_axi_rready,

    // Write: in the cycle of write_enable, whether it is refused.
    output logic                    write_enable,
    output logic [ADDRESS_BITS-1:0] write_address,
    output logic [31:0]             write_data,
    output logic [3:0]              write_strobe,
    input  logic                    write_error,
    // Read: in the cycle of read_enable, the data and whether it is refused.
    output logic                    read_enable,
    output logic [ADDRESS_BITS-1:0] read_address,
    input  logic [31:0]             read_data,
    input  logic                    read_error
);
    import vfun_fpga_pkg::*;

    logic have_address, have_data;

    assign write_enable  = have_address && have_data && (!s_axi_bvalid || s_axi_bready) && !stuck;
    assign s_axi_awready = (!have_address || write_enable) && !stuck;
    assign s_axi_wready  = (!have_data || write_enable) && !stuck;

    always_ff @(posedge clk) begin
        if (!resetn) begin
            have_address  <= 1'b0;
            have_data     <= 1'b0;
            write_address <= '0;
            write_data    <= '0;
            write_strobe  <= '0;
            s_axi_bvalid  <= 1'b0;
            s_axi_bresp   <= OKAY;
        end else begin
            if (s_axi_awvalid && s_axi_awready) begin
                have_address  <= 1'b1;
                write_address <= s_axi_awaddr;
            end else if (write_enable) begin
                have_address  <= 1'b0;
                write_address <= '0;
            end
            if (s_axi_wvalid && s_axi_wready) begin
                have_data    <= 1'b1;
                write_data   <= s_axi_wdata;
                write_strobe <= s_axi_wstrb;
            end else if (write_enable) begin
                have_data    <= 1'b0;
                write_data   <= '0;
                write_strobe <= '0;
            end
            if (write_enable) begin
                s_axi_bvalid <= 1'b1;
                s_axi_bresp  <= write_error ? SLVERR : OKAY;
            end else if (s_axi_bready) begin
                s_axi_bvalid <= 1'b0;
                s_axi_bresp  <= OKAY;
            end
        end
    end

    assign s_axi_arready = (!s_axi_rvalid || s_axi_rready) && !stuck;
    assign read_enable   = s_axi_arvalid && s_axi_arready;
    assign read_address  = s_axi_araddr;

    always_ff @(posedge clk) begin
        if (!resetn) begin
            s_axi_rvalid <= 1'b0;
            s_axi_rdata  <= '0;
            s_axi_rresp  <= OKAY;
        end else if (read_enable) begin
            s_axi_rvalid <= 1'b1;
            s_axi_rdata  <= read_error ? '0 : read_data;
            s_axi_rresp  <= read_error ? SLVERR : OKAY;
        end else if (s_axi_rready) begin
            s_axi_rvalid <= 1'b0;
            s_axi_rdata  <= '0;
            s_axi_rresp  <= OKAY;
        end
    end
endmodule
