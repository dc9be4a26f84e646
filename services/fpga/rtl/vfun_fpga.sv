// The device: one AXI4-Lite port, VFS VFs. VF n has the 4096 bytes from
// n * 4096 on; addresses beyond the last VF's, addresses without a register
// and unaligned ones, writes of less than a word, and writes at the wrong
// moment are answered with SLVERR and change nothing.
module vfun_fpga #(
    parameter int unsigned VFS = 4
) (
    input  logic           clk,
    input  logic           resetn,
    // Faults for tests; tie to 0 on a board. Bit 0: the cores stand still.
    // Bit 1: the port takes and answers nothing.
    input  logic [1:0]     fault,

    input  logic [15:0]    s_axi_awaddr,
    input  logic           s_axi_awvalid,
    output logic           s_axi_awready,
    input  logic [31:0]    s_axi_wdata,
    input  logic [3:0]     s_axi_wstrb,
    input  logic           s_axi_wvalid,
    output logic           s_axi_wready,
    output logic [1:0]     s_axi_bresp,
    output logic           s_axi_bvalid,
    input  logic           s_axi_bready,
    input  logic [15:0]    s_axi_araddr,
    input  logic           s_axi_arvalid,
    output logic           s_axi_arready,
    output logic [31:0]    s_axi_rdata,
    output logic [1:0]     s_axi_rresp,
    output logic           s_axi_rvalid,
    input  logic           s_axi_rready,

    // One interrupt line a VF, high as long as its interrupt is pending.
    output logic [VFS-1:0] irq
);
    logic        write_enable, write_error, read_error;
    logic [15:0] write_address, read_address;
    logic [31:0] write_data, read_data;
    logic [3:0]  write_strobe;
    /* verilator lint_off UNUSEDSIGNAL */
    logic        read_enable;  // reading changes nothing here
    /* verilator lint_on UNUSEDSIGNAL */

    vfun_axil #(.ADDRESS_BITS(16)) port (
        .clk, .resetn, .stuck(fault[1]),
        .s_axi_awaddr, .s_axi_awvalid, .s_axi_awready, .s_axi_wdata, .s_axi_wstrb, .s_axi_wvalid, .s_axi_wready,
        .s_axi_bresp, .s_axi_bvalid, .s_axi_bready, .s_axi_araddr, .s_axi_arvalid, .s_axi_arready,
        .s_axi_rdata, .s_axi_rresp, .s_axi_rvalid, .s_axi_rready,
        .write_enable, .write_address, .write_data, .write_strobe, .write_error,
        .read_enable, .read_address, .read_data, .read_error
    );

    logic [VFS-1:0]       vf_write_error, vf_read_error;
    logic [VFS-1:0][31:0] vf_read_data;

    for (genvar i = 0; i < VFS; i++) begin : vfs
        vfun_vf #(.VFS(VFS)) vf (
            .number(16'(i)), .clk, .resetn, .stuck(fault[0]),
            .write_enable(write_enable && write_address[15:12] == 4'(i)),
            .write_address(write_address[11:0]), .write_data, .write_strobe, .write_error(vf_write_error[i]),
            .read_address(read_address[11:0]), .read_data(vf_read_data[i]), .read_error(vf_read_error[i]),
            .irq(irq[i])
        );
    end

    always_comb begin
        write_error = 1'b1;
        read_error  = 1'b1;
        read_data   = 32'h0;
        for (int i = 0; i < VFS; i++) begin
            if (write_address[15:12] == 4'(i)) write_error = vf_write_error[i];
            if (read_address[15:12] == 4'(i)) begin
                read_error = vf_read_error[i];
                read_data  = vf_read_data[i];
            end
        end
    end
endmodule
