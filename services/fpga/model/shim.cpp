// The C face of the model that Verilator makes of rtl/: pins in, pins out.
// What drives the pins is src/sim/axi.rs. Not thread safe for one model;
// different models share nothing.

#include "Vvfun_fpga.h"
#include "verilated.h"
#include "verilated_save.h"
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

extern "C" {

// The same as `Inputs` in src/sim/pins.rs.
struct vfun_fpga_inputs {
    uint32_t wdata;
    uint16_t awaddr;
    uint16_t araddr;
    uint8_t awvalid;
    uint8_t wvalid;
    uint8_t wstrb;
    uint8_t bready;
    uint8_t arvalid;
    uint8_t rready;
    uint8_t resetn;
    uint8_t fault;
};

// The same as `Outputs` in src/sim/pins.rs.
struct vfun_fpga_outputs {
    uint32_t rdata;
    uint8_t awready;
    uint8_t wready;
    uint8_t bvalid;
    uint8_t bresp;
    uint8_t arready;
    uint8_t rvalid;
    uint8_t rresp;
    uint8_t irq;
};

static_assert(sizeof(vfun_fpga_inputs) == 16 && sizeof(vfun_fpga_outputs) == 12, "as in pins.rs");
}

namespace {

// One for each processor are made unless it says otherwise, and our model uses none:
// a service may have few threads.
VerilatedContext* alone(VerilatedContext& context) {
    context.threads(1);
    return &context;
}

struct Model {
    VerilatedContext context;
    Vvfun_fpga top;
    Model() : top(alone(context), "vfun_fpga") {}

    // Cleared memory: vfun_fpga_state writes Verilator's structs with the gaps
    // between their fields, which would else tell two models apart.
    static void* operator new(size_t bytes, std::align_val_t align) {
        void* room = std::aligned_alloc(static_cast<size_t>(align), bytes);
        if (!room) throw std::bad_alloc();
        return std::memset(room, 0, bytes);
    }
    static void operator delete(void* room, std::align_val_t) { std::free(room); }
};
static_assert(alignof(Model) > __STDCPP_DEFAULT_NEW_ALIGNMENT__, "else the plain operator new is used");

void drive(Vvfun_fpga& top, const vfun_fpga_inputs& in) {
    top.s_axi_awaddr = in.awaddr;
    top.s_axi_awvalid = in.awvalid & 1;
    top.s_axi_wdata = in.wdata;
    top.s_axi_wstrb = in.wstrb & 15;
    top.s_axi_wvalid = in.wvalid & 1;
    top.s_axi_bready = in.bready & 1;
    top.s_axi_araddr = in.araddr;
    top.s_axi_arvalid = in.arvalid & 1;
    top.s_axi_rready = in.rready & 1;
    top.resetn = in.resetn & 1;
    top.fault = in.fault & 3;
}

// Collects what the model writes of itself.
struct Collector final : VerilatedSerialize {
    std::vector<uint8_t> bytes;
    ~Collector() override = default;
    void flush() override {
        bytes.insert(bytes.end(), m_bufp, m_cp);
        m_cp = m_bufp;
    }
};

}  // namespace

extern "C" {

void* vfun_fpga_new() {
    try {
        return new Model;
    } catch (...) {
        return nullptr;
    }
}

void vfun_fpga_free(void* model) { delete static_cast<Model*>(model); }

// One clock cycle: the outputs are those just before the rising edge, at which
// the device sees these inputs.
void vfun_fpga_cycle(void* model, const vfun_fpga_inputs* in, vfun_fpga_outputs* out) {
    Vvfun_fpga& top = static_cast<Model*>(model)->top;
    drive(top, *in);
    top.clk = 0;
    top.eval();
    out->rdata = top.s_axi_rdata;
    out->awready = top.s_axi_awready;
    out->wready = top.s_axi_wready;
    out->bvalid = top.s_axi_bvalid;
    out->bresp = top.s_axi_bresp;
    out->arready = top.s_axi_arready;
    out->rvalid = top.s_axi_rvalid;
    out->rresp = top.s_axi_rresp;
    out->irq = top.irq;
    top.clk = 1;
    top.eval();
}

// Up to `cycles` cycles with the same inputs, fewer if one of the interrupt
// lines in `lines` is high. How many there were.
uint32_t vfun_fpga_run(void* model, const vfun_fpga_inputs* in, uint32_t cycles, uint8_t lines) {
    Vvfun_fpga& top = static_cast<Model*>(model)->top;
    drive(top, *in);
    for (uint32_t done = 0; done < cycles; ++done) {
        top.clk = 0;
        top.eval();
        if (top.irq & lines) return done;
        top.clk = 1;
        top.eval();
    }
    return cycles;
}

// Every bit of state that the model has, for comparing: writes at most
// `capacity` bytes and says how many there are; 0 if memory ran out.
size_t vfun_fpga_state(void* model, uint8_t* to, size_t capacity) {
    try {
        Collector collector;
        collector << static_cast<Model*>(model)->top;
        collector.flush();
        std::memcpy(to, collector.bytes.data(), std::min(capacity, collector.bytes.size()));
        return collector.bytes.size();
    } catch (...) {
        return 0;
    }
}
}
