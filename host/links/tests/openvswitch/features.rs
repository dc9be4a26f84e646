//! What an operator may switch on, and what the detector is to say of it.

/// How a feature comes, how it goes, and the reason of p1.
pub type Feature = (&'static str, &'static [&'static str], &'static [&'static str], &'static str);

/// What takes p1's frames the switch's way.
pub const FEATURES: &[Feature] = &[
    (
        "a mirror of all",
        &[
            "v -- --id=@p get Port p3 -- --id=@m create Mirror name=m select_all=true output_port=@p -- set Bridge br0 mirrors=@m",
        ],
        &["v clear Bridge br0 mirrors"],
        "the mirror m copies frames of p1",
    ),
    (
        "a mirror of the sender",
        &[
            "v -- --id=@p get Port p3 -- --id=@a get Port p1 -- --id=@m create Mirror name=m select_src_port=@a output_port=@p -- set Bridge br0 mirrors=@m",
        ],
        &["v clear Bridge br0 mirrors"],
        "the mirror m copies frames of p1",
    ),
    (
        "a mirror of the receiver",
        &[
            "v -- --id=@p get Port p3 -- --id=@a get Port p2 -- --id=@m create Mirror name=m select_dst_port=@a output_port=@p -- set Bridge br0 mirrors=@m",
        ],
        &["v clear Bridge br0 mirrors"],
        "the mirror m copies frames of p2",
    ),
    (
        "sFlow",
        &[
            "v -- --id=@s create sFlow agent=lo targets=\"127.0.0.1:6343\" sampling=64 -- set Bridge br0 sflow=@s",
        ],
        &["v clear Bridge br0 sflow"],
        "the bridge samples frames for sFlow",
    ),
    (
        "NetFlow",
        &["v -- --id=@s create NetFlow targets=\"127.0.0.1:5566\" -- set Bridge br0 netflow=@s"],
        &["v clear Bridge br0 netflow"],
        "the bridge counts frames for NetFlow",
    ),
    (
        "IPFIX",
        &["v -- --id=@s create IPFIX targets=\"127.0.0.1:4739\" -- set Bridge br0 ipfix=@s"],
        &["v clear Bridge br0 ipfix"],
        "the bridge samples frames for IPFIX",
    ),
    (
        "a meter",
        &[
            "f add-meter br0 meter=1,kbps,band=type=drop,rate=1000",
            "f add-flow br0 in_port=1,actions=meter:1,output:2",
        ],
        &["f add-flow br0 in_port=1,actions=output:2", "f del-meters br0"],
        "the rule in table 0 with priority 32768 and cookie 0x0 does not only forward frames: one of its actions is meter",
    ),
    (
        "policing",
        &["v set Interface p1 ingress_policing_rate=1000"],
        &["v set Interface p1 ingress_policing_rate=0"],
        "p1 has a limit of what it receives (ingress_policing)",
    ),
    (
        "policing by packets",
        &["v set Interface p2 ingress_policing_kpkts_rate=1"],
        &["v set Interface p2 ingress_policing_kpkts_rate=0"],
        "p2 has a limit of what it receives (ingress_policing)",
    ),
    (
        "QoS",
        &["v set Port p2 qos=@q -- --id=@q create QoS type=linux-htb"],
        &["v clear Port p2 qos"],
        "p2 has a QoS",
    ),
    (
        "a copy for the controller",
        &["f add-flow br0 in_port=1,actions=controller,output:2"],
        &["f add-flow br0 in_port=1,actions=output:2"],
        "the rule in table 0 with priority 32768 and cookie 0x0 does not only forward frames: one of its actions is controller",
    ),
    (
        "NORMAL",
        &["f add-flow br0 in_port=1,actions=NORMAL"],
        &["f add-flow br0 in_port=1,actions=output:2"],
        "the rule in table 0 with priority 32768 and cookie 0x0 does not only forward frames: one of its actions is NORMAL",
    ),
    (
        "learn",
        &["f add-flow br0 in_port=1,actions=learn(table=1,in_port=3),output:2"],
        &["f add-flow br0 in_port=1,actions=output:2"],
        "the rule in table 0 with priority 32768 and cookie 0x0 does not only forward frames: one of its actions is learn",
    ),
    (
        "conntrack",
        &["f add-flow br0 priority=40000,in_port=1,ip,actions=ct(table=1)"],
        &["f --strict del-flows br0 priority=40000,in_port=1,ip"],
        "the rule in table 0 with priority 40000 and cookie 0x0 does not only forward frames: one of its actions is ct",
    ),
    (
        "a group of one bucket",
        &[
            "f add-group br0 group_id=3,type=all,bucket=output:2",
            "f add-flow br0 in_port=1,actions=group:3",
        ],
        &["f add-flow br0 in_port=1,actions=output:2", "f del-groups br0"],
        "the rule in table 0 with priority 32768 and cookie 0x0 does not only forward frames: one of its actions is group",
    ),
    (
        "a queue",
        &["f add-flow br0 in_port=1,actions=set_queue:1,output:2"],
        &["f add-flow br0 in_port=1,actions=output:2"],
        "the rule in table 0 with priority 32768 and cookie 0x0 does not only forward frames: one of its actions is set_queue",
    ),
    (
        "a changed field",
        &["f add-flow br0 in_port=1,actions=mod_dl_src:02:00:00:00:00:01,output:2"],
        &["f add-flow br0 in_port=1,actions=output:2"],
        "the rule in table 0 with priority 32768 and cookie 0x0 does not only forward frames: one of its actions is set_field",
    ),
    (
        "a second output",
        &["f add-flow br0 in_port=1,actions=output:2,output:3"],
        &["f add-flow br0 in_port=1,actions=output:2"],
        "frames with dl_type=0x05ff are not only sent on: p2,p3",
    ),
    (
        "another port",
        &["f add-flow br0 in_port=1,actions=output:3"],
        &["f add-flow br0 in_port=1,actions=output:2"],
        "frames go to p3, which is no other port of ours",
    ),
    (
        "no rule",
        &["f --strict del-flows br0 in_port=1"],
        &["f add-flow br0 in_port=1,actions=output:2"],
        "no rule of table 0 takes all its frames: add one without other fields than in_port",
    ),
    (
        "a table that sends frames without a rule to the next one",
        &[
            "f add-flow br0 table=1,in_port=1,actions=output:2",
            "1 mod-table br0 0 continue",
            "f --strict del-flows br0 table=0,in_port=1",
        ],
        &[
            "f add-flow br0 in_port=1,actions=output:2",
            "1 mod-table br0 0 drop",
            "f del-flows br0 table=1",
        ],
        "no rule of table 0 takes all its frames: add one without other fields than in_port",
    ),
    (
        "a second table without a rule for all frames",
        &[
            "f add-flow br0 table=1,in_port=1,arp,actions=output:2",
            "f add-flow br0 in_port=1,actions=goto_table:1",
        ],
        &["f add-flow br0 in_port=1,actions=output:2", "f del-flows br0 table=1"],
        "no rule of table 1 takes all its frames: add one without other fields than in_port",
    ),
    (
        "idle_timeout",
        &["f add-flow br0 idle_timeout=300,in_port=1,actions=output:2"],
        &["f add-flow br0 in_port=1,actions=output:2"],
        "the rule in table 0 with priority 32768 and cookie 0x0 would end after 300 s without frames in the switch (idle_timeout)",
    ),
    (
        "send_flow_rem, where types differ",
        &[
            "f add-flow br0 send_flow_rem,in_port=1,actions=output:2",
            "f add-flow br0 priority=40000,arp,in_port=1,actions=output:2",
        ],
        &[
            "f --strict del-flows br0 priority=40000,arp,in_port=1",
            "f add-flow br0 in_port=1,actions=output:2",
        ],
        "the rule in table 0 with priority 32768 and cookie 0x0 tells its counts at its end (send_flow_rem)",
    ),
    (
        "a rule for a port of TCP",
        &["f add-flow br0 priority=40000,tcp,tp_dst=80,actions=drop"],
        &["f --strict del-flows br0 priority=40000,tcp,tp_dst=80"],
        "what becomes of frames with dl_type=0x0800,nw_frag=no depends on more: nw_proto=0",
    ),
    (
        "a rule for ARP",
        &["f add-flow br0 priority=40000,arp,actions=drop"],
        &["f --strict del-flows br0 priority=40000,arp"],
        "frames with dl_type=0x0806 are dropped",
    ),
    (
        "a rule for a strange EtherType",
        &["f add-flow br0 priority=40000,dl_type=0x1234,actions=drop"],
        &["f --strict del-flows br0 priority=40000,dl_type=0x1234"],
        "frames with dl_type=0x1234 are dropped",
    ),
    (
        "a rule for later fragments",
        &["f add-flow br0 priority=40000,ip,nw_frag=later,actions=drop"],
        &["f --strict del-flows br0 priority=40000,ip,nw_frag=later"],
        "frames with dl_type=0x0800,nw_frag=later are dropped",
    ),
    (
        "a rule for a VLAN",
        &["f add-flow br0 priority=40000,dl_vlan=7,actions=drop"],
        &["f --strict del-flows br0 priority=40000,dl_vlan=7"],
        "what becomes of frames with dl_type=0x05ff,dl_vlan=1 depends on more: dl_vlan=1",
    ),
    (
        "a rule for frames without a VLAN",
        &["f add-flow br0 priority=40000,vlan_tci=0,actions=drop"],
        &["f --strict del-flows br0 priority=40000,vlan_tci=0"],
        "frames with dl_type=0x05ff are dropped",
    ),
    (
        "a rule for an address",
        &["f add-flow br0 priority=40000,dl_dst=02:00:00:00:00:09,actions=output:2"],
        &["f --strict del-flows br0 priority=40000,dl_dst=02:00:00:00:00:09"],
        "what becomes of frames with dl_type=0x05ff depends on more: dl_dst=00:00:00:00:00:00",
    ),
    (
        "a way over another bridge and back",
        &[
            "v add-br br1 -- set Bridge br1 datapath_type=dummy fail_mode=secure",
            "v add-port br0 a0 -- set Interface a0 type=patch options:peer=a1 ofport_request=11",
            "v add-port br1 a1 -- set Interface a1 type=patch options:peer=a0 ofport_request=11",
            "v add-port br0 b0 -- set Interface b0 type=patch options:peer=b1 ofport_request=12",
            "v add-port br1 b1 -- set Interface b1 type=patch options:peer=b0 ofport_request=12",
            "f add-flow br1 in_port=11,actions=output:12",
            "f add-flow br0 in_port=12,actions=output:2",
            "f add-flow br0 in_port=1,actions=output:11",
        ],
        &[
            "f add-flow br0 in_port=1,actions=output:2",
            "v del-port br0 a0",
            "v del-port br0 b0",
            "v del-br br1",
        ],
        "a rule that its frames may meet sends to port 11",
    ),
    (
        "a table that evicts",
        &[
            "v -- --id=@t create Flow_Table flow_limit=1000 overflow_policy=evict -- set Bridge br0 flow_tables:0=@t",
        ],
        &["v clear Bridge br0 flow_tables"],
        "the bridge throws rules away when a table is full (overflow_policy=evict)",
    ),
    (
        "rules that are being restored",
        &["v --no-wait set Open_vSwitch . other_config:flow-restore-wait=true"],
        &["v remove Open_vSwitch . other_config flow-restore-wait"],
        "the rules of the switch are being restored (flow-restore-wait)",
    ),
    (
        "STP",
        &["v set Bridge br0 stp_enable=true"],
        &["v set Bridge br0 stp_enable=false"],
        "the bridge speaks STP",
    ),
    (
        "RSTP",
        &["v set Bridge br0 rstp_enable=true"],
        &["v set Bridge br0 rstp_enable=false"],
        "the bridge speaks RSTP",
    ),
    (
        "BFD",
        &["v set Interface p1 bfd:enable=true"],
        &["v clear Interface p1 bfd"],
        "p1 speaks BFD",
    ),
    (
        "CFM",
        &["v set Interface p2 cfm_mpid=5"],
        &["v clear Interface p2 cfm_mpid"],
        "p2 speaks CFM",
    ),
    ("LACP", &["v set Port p1 lacp=active"], &["v clear Port p1 lacp"], "p1 speaks LACP"),
    (
        "LLDP",
        &["v set Interface p1 lldp:enable=true"],
        &["v clear Interface p1 lldp"],
        "p1 speaks LLDP",
    ),
    (
        "no-forward",
        &["f mod-port br0 p2 no-forward"],
        &["f mod-port br0 p2 forward"],
        "p2 is sent nothing (no-forward)",
    ),
    (
        "no-receive",
        &["f mod-port br0 p1 no-receive"],
        &["f mod-port br0 p1 receive"],
        "p1 receives nothing (no-receive)",
    ),
    ("the sender down", &["f mod-port br0 p1 down"], &["f mod-port br0 p1 up"], "p1 is set down"),
    ("the receiver down", &["f mod-port br0 p2 down"], &["f mod-port br0 p2 up"], "p2 is set down"),
    (
        "the receiver's device down",
        &["a netdev-dummy/set-admin-state p2 down"],
        &["a netdev-dummy/set-admin-state p2 up"],
        "p2 is set down",
    ),
    (
        "a smaller MTU",
        &["v set Interface p2 mtu_request=1400"],
        &["v set Interface p2 mtu_request=1500"],
        "frames of the sender (MTU 1500) are too long for the receiver (1400)",
    ),
    (
        "another number",
        &["v set Interface p2 ofport_request=9"],
        &["v set Interface p2 ofport_request=2", "f add-flow br0 in_port=2,actions=output:1"],
        "frames with dl_type=0x05ff are dropped",
    ),
    (
        "a controller in band",
        &["v set-controller br0 tcp:127.0.0.1:9"],
        &[
            "v del-controller br0",
            "f add-flow br0 in_port=1,actions=output:2",
            "f add-flow br0 in_port=2,actions=output:1",
        ],
        "the bridge has hidden rules for its controller: set other_config:disable-in-band=true",
    ),
    (
        "a bridge that fails open",
        &["v set Bridge br0 fail_mode=standalone", "v set-controller br0 punix:/nonexistent/x"],
        &[
            "v del-controller br0",
            "v set Bridge br0 fail_mode=secure",
            "f del-flows br0",
            "f add-flow br0 in_port=1,actions=output:2",
            "f add-flow br0 in_port=2,actions=output:1",
        ],
        "the bridge forwards by itself when its controller is gone: set fail_mode=secure",
    ),
    (
        "a bridge without OpenFlow 1.4",
        &["v set Bridge br0 protocols=OpenFlow10,OpenFlow13"],
        &["v clear Bridge br0 protocols"],
        "something is not known: there is no connection to the bridge's management socket: the bridge does not speak OpenFlow 1.4: add OpenFlow14 to its column `protocols`",
    ),
];

/// What changes nothing that matters: p1 stays joined or comes back.
pub const HARMLESS: &[Feature] = &[
    (
        "send_flow_rem",
        &["f add-flow br0 send_flow_rem,in_port=1,actions=output:2"],
        &["f add-flow br0 in_port=1,actions=output:2"],
        "",
    ),
    ("an access tag", &["v set Port p1 tag=5"], &["v clear Port p1 tag"], ""),
    (
        "tables",
        &[
            "f add-flow br0 table=1,actions=output:2",
            "f add-flow br0 in_port=1,actions=resubmit(,1)",
        ],
        &["f add-flow br0 in_port=1,actions=output:2", "f del-flows br0 table=1"],
        "",
    ),
    (
        "goto_table",
        &[
            "f add-flow br0 table=1,actions=output:2",
            "f add-flow br0 in_port=1,actions=goto_table:1",
        ],
        &["f add-flow br0 in_port=1,actions=output:2", "f del-flows br0 table=1"],
        "",
    ),
    (
        "hard_timeout",
        &["f add-flow br0 hard_timeout=600,in_port=1,actions=output:2"],
        &["f add-flow br0 in_port=1,actions=output:2"],
        "",
    ),
    (
        "a note",
        &["f add-flow br0 in_port=1,actions=note:00.01,output:2"],
        &["f add-flow br0 in_port=1,actions=output:2"],
        "",
    ),
    (
        "ARP by a rule of its own",
        &["f add-flow br0 priority=40000,in_port=1,arp,actions=output:2"],
        &["f --strict del-flows br0 priority=40000,in_port=1,arp"],
        "",
    ),
    (
        "a mirror of another port",
        &[
            "v -- --id=@p get Port p3 -- --id=@m create Mirror name=m select_src_port=@p output_port=@p -- set Bridge br0 mirrors=@m",
        ],
        &["v clear Bridge br0 mirrors"],
        "",
    ),
    (
        "rules of another port",
        &["f add-flow br0 priority=40000,in_port=3,tcp,tp_dst=80,actions=NORMAL"],
        &["f --strict del-flows br0 priority=40000,in_port=3,tcp,tp_dst=80"],
        "",
    ),
    (
        "a rule below",
        &["f add-flow br0 priority=0,actions=NORMAL"],
        &["f --strict del-flows br0 priority=0"],
        "",
    ),
    (
        "another port",
        &["v add-port br0 p4 -- set Interface p4 type=dummy"],
        &["v del-port br0 p4"],
        "",
    ),
];

/// Features of [`FEATURES`] that do not undo each other.
pub const APART: [&str; 13] = [
    "sFlow",
    "NetFlow",
    "IPFIX",
    "policing",
    "QoS",
    "STP",
    "BFD",
    "CFM",
    "no-receive",
    "a rule for a port of TCP",
    "a rule for ARP",
    "a rule for a VLAN",
    "a rule for a strange EtherType",
];
