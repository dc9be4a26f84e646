"""A controller made with os-ken, for the tests of vfun-links-proxy: takes orders from standard input, a
word a line, and writes what the switch said, a JSON object a line.

controller.py PORT 10|13 [KEY CERT CA]

PORT is a TCP port, or one for TLS if files are named. Orders: `flows`, `sum`, `add` (a rule that tells its
end), `remove` (that rule), `barrier`.
"""
import json
import sys
import threading

from os_ken import cfg
from os_ken.base.app_manager import AppManager, OSKenApp
from os_ken.controller import ofp_event
from os_ken.controller.handler import CONFIG_DISPATCHER, MAIN_DISPATCHER, set_ev_cls
from os_ken.ofproto import ofproto_v1_0, ofproto_v1_3

PORT, VERSION, *FILES = sys.argv[1:]
IS_10 = VERSION == "10"


def say(**words):
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


def rule(stat):
    match = stat.match
    port = match.in_port if IS_10 else match.get("in_port")
    return {"cookie": stat.cookie, "priority": stat.priority, "in_port": port, "table": getattr(stat, "table_id", None),
            "packets": stat.packet_count, "bytes": stat.byte_count}


class Controller(OSKenApp):
    OFP_VERSIONS = [ofproto_v1_0.OFP_VERSION if IS_10 else ofproto_v1_3.OFP_VERSION]
    switch = None

    @set_ev_cls(ofp_event.EventOFPSwitchFeatures, CONFIG_DISPATCHER)
    def features(self, event):
        Controller.switch = event.msg.datapath
        say(connected=event.msg.datapath.id)

    def stats(self, event):
        body = event.msg.body
        more = bool(event.msg.flags & 1)
        if isinstance(body, list):
            if body and hasattr(body[0], "flow_count"):
                body = body[0]
            else:
                return say(flows=[rule(stat) for stat in body], more=more)
        say(packets=body.packet_count, bytes=body.byte_count, flows_counted=body.flow_count)

    @set_ev_cls([ofp_event.EventOFPFlowStatsReply, ofp_event.EventOFPAggregateStatsReply], MAIN_DISPATCHER)
    def answered(self, event):
        self.stats(event)

    @set_ev_cls(ofp_event.EventOFPFlowRemoved, MAIN_DISPATCHER)
    def removed(self, event):
        say(removed=rule(event.msg))

    @set_ev_cls(ofp_event.EventOFPBarrierReply, MAIN_DISPATCHER)
    def done(self, event):
        say(barrier=event.msg.xid)

    @set_ev_cls(ofp_event.EventOFPErrorMsg, [CONFIG_DISPATCHER, MAIN_DISPATCHER])
    def refused(self, event):
        say(error=[event.msg.type, event.msg.code])


def question(kind, datapath):
    parser, proto = datapath.ofproto_parser, datapath.ofproto
    if IS_10:
        name = "OFPFlowStatsRequest" if kind == "flows" else "OFPAggregateStatsRequest"
        return getattr(parser, name)(datapath, 0, parser.OFPMatch(), 0xFF, proto.OFPP_NONE)
    name = "OFPFlowStatsRequest" if kind == "flows" else "OFPAggregateStatsRequest"
    return getattr(parser, name)(datapath, 0, proto.OFPTT_ALL, proto.OFPP_ANY, proto.OFPG_ANY, 0, 0, parser.OFPMatch())


def change(kind, datapath):
    parser, proto = datapath.ofproto_parser, datapath.ofproto
    match = parser.OFPMatch(in_port=3)
    command = proto.OFPFC_ADD if kind == "add" else proto.OFPFC_DELETE_STRICT
    common = dict(datapath=datapath, cookie=0x99, command=command, priority=55, match=match,
                  flags=proto.OFPFF_SEND_FLOW_REM)
    actions = [parser.OFPActionOutput(2)]
    if IS_10:
        return parser.OFPFlowMod(actions=actions, out_port=proto.OFPP_NONE, **common)
    does = [parser.OFPInstructionActions(proto.OFPIT_APPLY_ACTIONS, actions)]
    return parser.OFPFlowMod(instructions=does, out_port=proto.OFPP_ANY, out_group=proto.OFPG_ANY, **common)


def orders():
    for word in map(str.strip, sys.stdin):
        datapath = Controller.switch
        if word in ("flows", "sum"):
            message = question(word, datapath)
        elif word in ("add", "remove"):
            message = change(word, datapath)
        else:
            message = datapath.ofproto_parser.OFPBarrierRequest(datapath)
        datapath.send_msg(message)


words = []
if FILES:
    key, cert, ca = FILES
    words = ["--ofp-tcp-listen-port", "0", "--ofp-ssl-listen-port", PORT, "--ctl-privkey", key, "--ctl-cert", cert,
             "--ca-certs", ca]
else:
    words = ["--ofp-tcp-listen-port", PORT]
cfg.CONF(["--ofp-listen-host", "127.0.0.1", *words], project="os_ken")
threading.Thread(target=orders, daemon=True).start()
AppManager.run_apps([__name__])
