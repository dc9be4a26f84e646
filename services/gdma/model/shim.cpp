// The C face of the model that Verilator makes of rtl/: an engine, its clock,
// its register port, and the nodes' memories behind its AXI4 master. Not thread
// safe for one model; different models share nothing but the memories.

#include "Vvfun_dma.h"
#include "verilated.h"
#include <cstdint>
#include <cstring>
#include <new>

namespace {

constexpr unsigned BEAT = 64;
constexpr unsigned PAGE_BEATS = 64;  // AXI: no burst crosses 4096 bytes
constexpr unsigned NODES = 16;
constexpr unsigned BURSTS = 16;  // that the fabric takes before it answers
constexpr uint64_t OFFSET_MASK = (uint64_t{1} << 40) - 1;
constexpr uint8_t OKAY = 0, DECERR = 3;

struct Memory {
    uint8_t* base = nullptr;
    uint64_t bytes = 0;
};

struct Burst {
    uint64_t at = 0;
    unsigned beats = 0;
};

// A short queue of bursts.
class Bursts {
    Burst bursts[BURSTS];
    unsigned head = 0, count = 0;

public:
    bool empty() const { return count == 0; }
    bool full() const { return count == BURSTS; }
    Burst& front() { return bursts[head]; }
    void push(Burst burst) { bursts[(head + count++) % BURSTS] = burst; }
    void pop() {
        head = (head + 1) % BURSTS;
        --count;
    }
};

// The memories are written by other programs meanwhile, so they are read and
// written by words that the compiler neither repeats nor invents.
void load(const uint8_t* from, uint32_t* to) {
    const auto* words = reinterpret_cast<const uint64_t*>(from);
    for (unsigned i = 0; i < BEAT / 8; ++i) {
        const uint64_t word = __atomic_load_n(words + i, __ATOMIC_RELAXED);
        std::memcpy(to + 2 * i, &word, 8);
    }
}

void store(uint8_t* to, const uint32_t* from, uint64_t strobe) {
    if (strobe == ~uint64_t{0}) {
        auto* words = reinterpret_cast<uint64_t*>(to);
        for (unsigned i = 0; i < BEAT / 8; ++i) {
            uint64_t word;
            std::memcpy(&word, from + 2 * i, 8);
            __atomic_store_n(words + i, word, __ATOMIC_RELAXED);
        }
        return;
    }
    for (unsigned i = 0; i < BEAT; ++i) {
        if (strobe >> i & 1) {
            __atomic_store_n(to + i, static_cast<uint8_t>(from[i / 4] >> 8 * (i % 4)), __ATOMIC_RELAXED);
        }
    }
}

// One for each processor are made unless it says otherwise, and our model uses none:
// a service may have few threads.
VerilatedContext* alone(VerilatedContext& context) {
    context.threads(1);
    return &context;
}

// The engine, and what its master sees: memories that answer in order, at once
// or, for tests, after pauses.
class Model {
    VerilatedContext context;
    Memory memories[NODES + 1];
    Bursts reads, writes;
    unsigned answers = 0;
    bool failed = false;  // a beat of the burst that is being written
    uint8_t answer[BURSTS + 1] = {};
    unsigned answer_head = 0;
    uint64_t pauses = 0;  // state of the pauses' generator; 0: there are none
    enum Channel { AR, R, AW, W };
    unsigned often[4] = {};  // of four cycles a channel pauses so many
    bool offered = false;

    uint8_t* beat(uint64_t at) const {
        const uint64_t node = at >> 40, offset = at & OFFSET_MASK;
        if (node > NODES) return nullptr;
        const Memory& memory = memories[node];
        if (memory.bytes < BEAT || offset > memory.bytes - BEAT) return nullptr;
        return memory.base + offset;
    }

    bool pause(Channel channel) {
        if (!pauses) return false;
        pauses ^= pauses << 13;
        pauses ^= pauses >> 7;
        pauses ^= pauses << 17;
        return (pauses & 3) < often[channel];
    }

    void check_burst(uint64_t at, unsigned beats) {
        if (at % BEAT != 0 || at / BEAT % PAGE_BEATS + beats > PAGE_BEATS) ++violations;
    }

    // What the memories do in the cycle that is about to be clocked.
    void fabric_before() {
        top.m_axi_arready = !reads.full() && !pause(AR);
        top.m_axi_awready = !writes.full() && answers < BURSTS && !pause(AW);
        top.m_axi_wready = !writes.empty() && answers < BURSTS && !pause(W);
        // What was offered and not taken stays.
        if (!reads.empty() && (offered || !pause(R))) {
            if (!offered) {
                const uint8_t* from = beat(reads.front().at);
                if (from) load(from, top.m_axi_rdata.m_storage);
                else std::memset(top.m_axi_rdata.m_storage, 0, BEAT);
                top.m_axi_rresp = from ? OKAY : DECERR;
            }
            top.m_axi_rvalid = 1;
        } else {
            top.m_axi_rvalid = 0;
        }
        top.m_axi_bvalid = answers != 0;
        top.m_axi_bresp = answer[answer_head];
    }

    // What the engine took and gave at the clock's edge; its outputs are still
    // those before the edge, because all of the master's are registers.
    void fabric_at_edge() {
        if (top.m_axi_rvalid) {
            offered = !top.m_axi_rready;
            if (!offered) {
                reads.front().at += BEAT;
                if (--reads.front().beats == 0) reads.pop();
            }
        }
        if (top.m_axi_bvalid && top.m_axi_bready) {
            answer_head = (answer_head + 1) % (BURSTS + 1);
            --answers;
        }
        if (top.m_axi_wvalid && top.m_axi_wready) write_beat();
        if (top.m_axi_arvalid && top.m_axi_arready) {
            reads.push({top.m_axi_araddr, top.m_axi_arlen + 1u});
            check_burst(top.m_axi_araddr, top.m_axi_arlen + 1u);
        }
        if (top.m_axi_awvalid && top.m_axi_awready) {
            writes.push({top.m_axi_awaddr, top.m_axi_awlen + 1u});
            check_burst(top.m_axi_awaddr, top.m_axi_awlen + 1u);
        }
    }

    void write_beat() {
        Burst& burst = writes.front();
        uint8_t* to = beat(burst.at);
        if (to) store(to, top.m_axi_wdata.m_storage, top.m_axi_wstrb);
        else failed = true;
        burst.at += BEAT;
        const bool last = --burst.beats == 0;
        if (last != (top.m_axi_wlast != 0)) ++violations;
        if (last) {
            answer[(answer_head + answers++) % (BURSTS + 1)] = failed ? DECERR : OKAY;
            failed = false;
            writes.pop();
        }
    }

public:
    Vvfun_dma top;
    uint64_t violations = 0;

    Model(uint16_t node, uint8_t fault) : top(alone(context), "vfun_dma") {
        top.node = node;
        top.fault = fault & 3;
        top.s_axi_wstrb = 15;
        for (uint8_t resetn : {0, 0, 1}) {
            top.resetn = resetn;
            settle();
            edge();
        }
    }

    void set_memory(unsigned node, uint8_t* base, uint64_t bytes) {
        if (node <= NODES) memories[node] = {base, bytes};
    }
    void set_pauses(uint64_t seed) {
        pauses = seed;
        // Any channel may be the slowest one, and none stands still.
        for (unsigned i = 0; i < 4; ++i) often[i] = seed >> (16 + 2 * i) & 3;
    }

    // A clock cycle is settle(), at which outputs that follow from inputs are
    // there, and then edge().
    void settle() {
        fabric_before();
        top.clk = 0;
        top.eval();
    }
    void edge() {
        fabric_at_edge();
        top.clk = 1;
        top.eval();
    }
};

// Clock cycles that the port may take for one transfer, and how one ends.
// Both as in src/edge/model.rs.
constexpr unsigned BUS_CYCLES = 1000;
enum : int { DONE = 0, REFUSED = 1, SILENT = 2 };

int silent(Vvfun_dma& top) {
    top.s_axi_arvalid = top.s_axi_awvalid = top.s_axi_wvalid = 0;
    top.s_axi_rready = top.s_axi_bready = 0;
    return SILENT;
}

}  // namespace

extern "C" {

void* vfun_dma_new(uint16_t node, uint8_t fault) {
    try {
        return new Model(node, fault);
    } catch (...) {
        return nullptr;
    }
}

void vfun_dma_free(void* model) { delete static_cast<Model*>(model); }

// The memory of a node: `bytes` from `base` on, aligned to 64 bytes, and there
// as long as the model is clocked.
void vfun_dma_memory(void* model, uint16_t node, uint8_t* base, uint64_t bytes) {
    static_cast<Model*>(model)->set_memory(node, base, bytes);
}

// From now on the memories pause at random, by this seed, each channel as often
// as it says; 0: no more.
void vfun_dma_pauses(void* model, uint64_t seed) { static_cast<Model*>(model)->set_pauses(seed); }

// How often the master broke a rule of AXI that the memories look at.
uint64_t vfun_dma_violations(void* model) { return static_cast<Model*>(model)->violations; }

// Up to `cycles` clock cycles, fewer if the interrupt line is high. How many there were.
uint32_t vfun_dma_run(void* model, uint32_t cycles) {
    auto& m = *static_cast<Model*>(model);
    for (uint32_t done = 0; done < cycles; ++done) {
        m.settle();
        if (m.top.irq) return done;
        m.edge();
    }
    return cycles;
}

// Reads a register by the bus's own signals.
int vfun_dma_read(void* model, uint16_t address, uint32_t* value) {
    auto& m = *static_cast<Model*>(model);
    auto& top = m.top;
    top.s_axi_araddr = address & 0xFFF;
    top.s_axi_arvalid = 1;
    top.s_axi_rready = 1;
    for (unsigned i = 0; i < BUS_CYCLES; ++i) {
        m.settle();
        const bool taken = top.s_axi_arvalid && top.s_axi_arready;
        const bool answered = top.s_axi_rvalid;
        const bool okay = top.s_axi_rresp == OKAY;
        *value = top.s_axi_rdata;
        m.edge();
        if (taken) top.s_axi_arvalid = 0;
        if (answered) {
            top.s_axi_rready = 0;
            return okay ? DONE : REFUSED;
        }
    }
    return silent(top);
}

// Writes registers, one after the other, back to back: `count` pairs of an
// address and a word. Refused if one of them was; the others were written all
// the same.
int vfun_dma_write(void* model, const uint32_t* pairs, uint32_t count) {
    auto& m = *static_cast<Model*>(model);
    auto& top = m.top;
    uint32_t addresses = 0, words = 0, answers = 0;
    bool refused = false;
    top.s_axi_bready = 1;
    for (unsigned waited = 0; answers < count; ++waited) {
        if (waited == BUS_CYCLES) return silent(top);
        top.s_axi_awvalid = addresses < count;
        top.s_axi_awaddr = addresses < count ? pairs[2 * addresses] & 0xFFF : 0;
        top.s_axi_wvalid = words < count;
        top.s_axi_wdata = words < count ? pairs[2 * words + 1] : 0;
        m.settle();
        addresses += top.s_axi_awvalid && top.s_axi_awready;
        words += top.s_axi_wvalid && top.s_axi_wready;
        if (top.s_axi_bvalid) {
            refused |= top.s_axi_bresp != OKAY;
            ++answers;
            waited = 0;
        }
        m.edge();
    }
    top.s_axi_bready = 0;
    return refused ? REFUSED : DONE;
}
}
