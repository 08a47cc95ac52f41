/**
 * From DSCP to skb->priority to one of three bands, as Linux does it for forwarded packets: rt_tos2priority()
 * (include/net/route.h, ip_tos2prio in net/ipv4/route.c) and sch_default_prio2band (net/sched/sch_generic.c).
 * rt_tos2priority() looks at the old TOS bits alone: bits 1 and 2 of the DSCP.
 */

/** Band by bits 1–2 of the DSCP: best effort 1, bulk 2, interactive 0, interactive bulk 1. */
export const bandOfDscp = (dscp: number): number => BANDS[(dscp >> 1) & 3]!;
const BANDS = [1, 2, 0, 1] as const;
