// The benchmark's dumbbell in ns-3 (3.37, Debian libns3-dev): pairs of hosts, an access link each, one bottleneck
// with CoDel or FQ-CoDel, bulk TCP from left to right. Prints one line of JSON: bottleneck packets, wall seconds.
// Linux's settings where ns-3 has them: MSS 1448, IW10, SACK, large buffers; ns-3 acknowledges every packet unless told.
#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"
#include <chrono>
#include <iostream>

using namespace ns3;

static uint64_t packets = 0, bytes = 0;
static void Sent(Ptr<const Packet> packet) { packets++; bytes += packet->GetSize(); }

int main(int argc, char *argv[])
{
    uint32_t pairs = 4;
    std::string rate = "20Mbps", access = "1Gbps", queue = "ns3::FqCoDelQueueDisc", cc = "ns3::TcpCubic";
    double seconds = 60, rttMs = 50;
    CommandLine cmd;
    cmd.AddValue("pairs", "pairs of hosts", pairs);
    cmd.AddValue("rate", "bottleneck rate", rate);
    cmd.AddValue("access", "access link rate", access);
    cmd.AddValue("queue", "queue disc type", queue);
    cmd.AddValue("cc", "congestion control type", cc);
    cmd.AddValue("seconds", "simulated seconds", seconds);
    cmd.AddValue("rtt", "two-way propagation delay, ms", rttMs);
    cmd.Parse(argc, argv);

    Config::SetDefault("ns3::TcpL4Protocol::SocketType", StringValue(cc));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(16 << 20));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(16 << 20));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(2));

    auto started = std::chrono::steady_clock::now();
    NodeContainer routers, left, right;
    routers.Create(2);
    left.Create(pairs);
    right.Create(pairs);
    InternetStackHelper stack;
    stack.InstallAll();

    PointToPointHelper bottleneck, accessLink;
    bottleneck.SetDeviceAttribute("DataRate", StringValue(rate));
    bottleneck.SetChannelAttribute("Delay", TimeValue(MicroSeconds(rttMs * 500)));
    bottleneck.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("1p"));
    accessLink.SetDeviceAttribute("DataRate", StringValue(access));
    accessLink.SetChannelAttribute("Delay", TimeValue(MicroSeconds(0)));

    NetDeviceContainer middle = bottleneck.Install(routers);
    TrafficControlHelper control;
    control.SetRootQueueDisc(queue);
    control.Install(middle.Get(0));
    middle.Get(0)->TraceConnectWithoutContext("PhyTxEnd", MakeCallback(&Sent));

    Ipv4AddressHelper address;
    address.SetBase("10.255.0.0", "255.255.255.252");
    address.Assign(middle);
    address.SetBase("10.1.0.0", "255.255.255.252");
    for (uint32_t i = 0; i < pairs; i++) {
        address.Assign(accessLink.Install(left.Get(i), routers.Get(0)));
        address.NewNetwork();
    }
    Ipv4AddressHelper sinks;
    sinks.SetBase("10.2.0.0", "255.255.255.252");
    for (uint32_t i = 0; i < pairs; i++) {
        Ipv4InterfaceContainer link = sinks.Assign(accessLink.Install(right.Get(i), routers.Get(1)));
        sinks.NewNetwork();
        PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), 9000));
        sink.Install(right.Get(i)).Start(Seconds(0));
        BulkSendHelper source("ns3::TcpSocketFactory", InetSocketAddress(link.GetAddress(0), 9000));
        source.SetAttribute("MaxBytes", UintegerValue(0));
        source.SetAttribute("SendSize", UintegerValue(65536));
        source.Install(left.Get(i)).Start(Seconds(double(i) / pairs));
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    Simulator::Stop(Seconds(seconds));
    Simulator::Run();
    Simulator::Destroy();
    double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
    std::cout << "{\"packets\":" << packets << ",\"bytes\":" << bytes << ",\"wallS\":" << wall << "}" << std::endl;
}
