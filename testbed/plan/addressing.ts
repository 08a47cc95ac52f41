/**
 * Addresses. Each router has a block, 10.R.0.0/16 or fd00:R::/32 (R from 1), and every cable at it a subnet of that
 * block, a /30 or a /64: those of its hosts, and of the links of which it is the first end. So a router needs one
 * route for each other router, however many hosts there are.
 */

export interface Subnet {
  /** Address of end a (the router of an access link) and of end b (its host). */
  readonly first: string;
  readonly second: string;
  readonly prefix: number;
}

/** @param router 0 … 99; as CIDR */
export function block(router: number, ip: 4 | 6): string {
  return ip === 4 ? `10.${router + 1}.0.0/16` : `fd00:${(router + 1).toString(16)}::/32`;
}

/** @param slot 0 … 16383, the cable's number within its router's block */
export function subnet(router: number, slot: number, ip: 4 | 6): Subnet {
  if (ip === 6) {
    const prefix = `fd00:${(router + 1).toString(16)}:0:${(slot + 1).toString(16)}`;
    return { first: `${prefix}::1`, second: `${prefix}::2`, prefix: 64 };
  }
  const address = (host: number): string => `10.${router + 1}.${slot >> 6}.${((slot & 63) << 2) + host}`;
  return { first: address(1), second: address(2), prefix: 30 };
}

export const defaultRoute = (ip: 4 | 6): string => (ip === 4 ? '0.0.0.0/0' : '::/0');
