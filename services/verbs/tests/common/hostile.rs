//! Two programs of one attacker, and an honest pair beside them.

use super::*;

/// Pages of the attacker's regions: two programs have two each, which lie apart.
const THEIRS: [u64; 2] = [16, 32];
const PAGES: u64 = 4;
/// Pages of the honest programs.
const HONEST: u64 = 100;

pub struct Hostile {
    lab: Lab,
    apps: Vec<App>,
    keys: Vec<u32>,
    qps: Vec<(usize, QpType, End)>,
    /// What the attacker can write, and the number of each queue's next entry.
    sides: Vec<Side>,
    honest: ((App, End), (App, End)),
    honest_keys: (u32, u32),
}

impl Hostile {
    pub fn new() -> Self {
        let mut lab = Lab::new();
        let apps = vec![lab.app(1), lab.app(2)];
        let honest = lab.pair(QpType::Rc);
        let keys = (0..2).map(|i| lab.region(&apps[i], THEIRS[i], PAGES, access::ALL)).collect();
        let honest_keys = (
            lab.region(&honest.0.0, HONEST, 1, access::ALL),
            lab.region(&honest.1.0, HONEST + 1, 1, access::ALL),
        );
        let (srq, shared) = lab.srq(&apps[1]);
        let mut qps = vec![];
        for (kind, srq) in
            [(QpType::Rc, None), (QpType::Uc, None), (QpType::Ud, None), (QpType::Rc, Some(srq))]
        {
            let (x, y) = (lab.qp(&apps[0], kind), lab.qp_of(&apps[1], kind, 16, srq));
            lab.connect(kind, (&apps[0], &x), (&apps[1], &y));
            qps.extend([(0, kind, x), (1, kind, y)]);
        }
        for app in &apps {
            lab.nic.make_ah(app.program, app.pd, Path { gid: None, lid: 1 }).unwrap();
        }
        let mut shared = shared;
        let mut sides = vec![shared.queue().memory().mine.clone()];
        for (_, _, qp) in &mut qps {
            sides.push(qp.sends.queue().memory().mine.clone());
            sides.push(qp.receives.queue().memory().mine.clone());
            sides.push(qp.cq.queue.memory().mine.clone());
        }
        let world = Hostile { lab, apps, keys, qps, sides, honest, honest_keys };
        world.lab.fill(0, &vec![0xab; WINDOW]);
        world
    }

    /// One thing that the attacker does, or one look of the NIC.
    pub fn step(&mut self, draw: &mut dyn FnMut() -> u64) {
        match draw() % 16 {
            0..=6 => self.send(draw),
            7..=9 => self.receive(draw),
            10 => self.poke(draw),
            11 => self.modify(draw),
            12 => self.poll(draw),
            13 => self.lab.now += draw() * 1_000_000,
            _ => {
                self.lab.nic.run(self.lab.now);
            }
        }
    }

    fn sge(&self, draw: &mut dyn FnMut() -> u64) -> Sge {
        let len = match draw() % 8 {
            0 => u32::MAX,
            1 => 0,
            _ => draw() as u32 % 300,
        };
        let (addr, lkey) = self.place(draw);
        Sge { addr, len, lkey }
    }

    /// An address, mostly near the attacker's memory, and a key: its own, a neighbour's, any.
    fn place(&self, draw: &mut dyn FnMut() -> u64) -> (u64, u32) {
        let key = match draw() % 8 {
            0 => draw() as u32,
            1 => self.honest_keys.0,
            n => self.keys[n as usize % 2],
        };
        let addr = match draw() % 8 {
            0 => u64::MAX - draw() % 64,
            1 => HONEST * PAGE,
            n => THEIRS[n as usize % 2] * PAGE + draw() % (PAGES * PAGE + 64),
        };
        (addr, key)
    }

    fn send(&mut self, draw: &mut dyn FnMut() -> u64) {
        let (addr, key) = self.place(draw);
        let list: Vec<Sge> = (0..draw() % 4).map(|_| self.sge(draw)).collect();
        let at = draw() as usize % self.qps.len();
        let peer = self.qps[at ^ 1].2.qpn;
        let (of, kind, qp) = &mut self.qps[at];
        let op = SendOpcode::ALL[draw() as usize % SendOpcode::ALL.len()];
        let datagram = *kind == QpType::Ud;
        let addr = if datagram { SendHead::datagram(peer, 0x1234) } else { addr };
        let key = if datagram { draw() as u32 % 3 } else { key };
        let head = SendHead { flags: draw() as u8 & 7, ..super::head(op, draw(), addr, key) };
        let operands = Operands { compare_add: draw(), swap: draw() };
        let body = match draw() % 4 {
            0 => SendBody::Inline(&[1; 100][..draw() as usize % 100]),
            _ if op.is_atomic() && !list.is_empty() => SendBody::Atomic(list[0], operands),
            _ => SendBody::Gather(&list),
        };
        // Full, or not possible: the attacker has other means too.
        let _ = qp.sends.post_send(&head, body);
        self.apps[*of].bells.posted(qp.bit);
    }

    fn receive(&mut self, draw: &mut dyn FnMut() -> u64) {
        let list: Vec<Sge> = (0..draw() % 5).map(|_| self.sge(draw)).collect();
        let at = draw() as usize % self.qps.len();
        let (of, _, qp) = &mut self.qps[at];
        let _ = qp.receives.post_receive(&ReceiveEntry::new(draw(), &list).unwrap());
        self.apps[*of].bells.posted_receive(qp.bit, &qp.receives);
    }

    /// Any word of a page that the attacker writes; often one that means something.
    fn poke(&self, draw: &mut dyn FnMut() -> u64) {
        let side = &self.sides[draw() as usize % self.sides.len()];
        let index = match draw() % 4 {
            0 => [0, 1, 8, 16][draw() as usize % 4],
            1 => 512 + draw() as usize % 64 * 8,
            _ => draw() as usize * 7,
        };
        let index = index % side.len();
        let value = match draw() % 4 {
            0 => draw(),
            // An entry of which a part is changed after it was posted.
            _ => peek(side, index) ^ (draw() & 0xff) << (draw() % 64),
        };
        poke(side, index, value);
    }

    fn modify(&mut self, draw: &mut dyn FnMut() -> u64) {
        let at = draw() as usize % self.qps.len();
        let (of, kind, qp) = &self.qps[at];
        let (peer_of, _, peer) = &self.qps[at ^ 1];
        let (app, to) = (&self.apps[*of], QpState::ALL[draw() as usize % 7]);
        let from = self.lab.nic.state(app.program, qp.id).unwrap();
        let required = allowed(from, to, *kind).map_or(0, |a| a.required);
        let set = attributes(&self.apps[*peer_of], peer);
        let mask = attribute::STATE | required;
        let _ = self.lab.nic.modify(app.program, qp.id, (mask, to, &set));
    }

    fn poll(&mut self, draw: &mut dyn FnMut() -> u64) {
        let at = draw() as usize % self.qps.len();
        let cq = &mut self.qps[at].2.cq;
        cq.asker.ask(&cq.queue, draw() & 1 != 0);
        let mut entries = [vfun_queue::Entry::default(); 8];
        let _ = cq.queue.consume(&mut entries);
    }

    /// The NIC finds an end, touched nothing that is not the attacker's, and serves others.
    pub fn finish(&mut self) {
        let ((a, x), (_, y)) = &mut self.honest;
        assert!(y.cq.poll().is_empty());
        let to = (HONEST + 1) * PAGE;
        self.lab.fill(HONEST * PAGE, b"honest");
        let (ka, kb) = self.honest_keys;
        let body = [sge(HONEST * PAGE, 6, ka)];
        x.send(a, &super::head(SendOpcode::Write, 1, to, kb), SendBody::Gather(&body));
        let looks = (0..4).position(|_| {
            self.lab.nic.run(self.lab.now);
            !x.cq.poll().is_empty()
        });
        assert!(looks.is_some(), "a neighbour starves");
        assert_eq!(self.lab.bytes(to, 6), b"honest");
        self.lab.run();
        let all = self.lab.bytes(0, WINDOW);
        let page = PAGE as usize;
        for (n, bytes) in all.chunks(page).enumerate() {
            let n = n as u64;
            let theirs = THEIRS.iter().any(|t| (*t..t + PAGES).contains(&n));
            let mut expected = [0xab; PAGE as usize];
            if n == HONEST || n == HONEST + 1 {
                expected[..6].copy_from_slice(b"honest");
            }
            assert!(theirs || bytes == expected, "page {n} is nobody's to write");
        }
    }
}
