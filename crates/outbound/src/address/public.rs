//! Which addresses are public.

use ipnet::Ipv4Net;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether `address` is reachable from anywhere, so that a request to it reveals nothing about our
/// own network.
pub fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// The blocks that IANA's registry of special purposes does not call globally reachable, multicast,
/// and the one public address behind which a cloud keeps the keys of its machines.
const NOT_PUBLIC_V4: [Ipv4Net; 17] = [
    block([0, 0, 0, 0], 8),          // this network
    block([10, 0, 0, 0], 8),         // private
    block([100, 64, 0, 0], 10),      // carrier-grade NAT
    block([127, 0, 0, 0], 8),        // this machine
    block([168, 63, 129, 16], 32),   // Azure's platform
    block([169, 254, 0, 0], 16),     // link-local, where clouds keep their metadata
    block([172, 16, 0, 0], 12),      // private
    block([192, 0, 0, 0], 24),       // protocols
    block([192, 0, 2, 0], 24),       // documentation
    block([192, 88, 99, 0], 24),     // relays from 6to4
    block([192, 168, 0, 0], 16),     // private
    block([198, 18, 0, 0], 15),      // benchmarks
    block([198, 51, 100, 0], 24),    // documentation
    block([203, 0, 113, 0], 24),     // documentation
    block([224, 0, 0, 0], 4),        // multicast
    block([240, 0, 0, 0], 4),        // reserved
    block([255, 255, 255, 255], 32), // broadcast
];

const fn block([a, b, c, d]: [u8; 4], bits: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), bits)
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    !NOT_PUBLIC_V4.iter().any(|block| block.contains(&address))
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let parts = address.segments();
    match parts {
        // NAT64: the embedded IPv4 address decides.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => is_public_v4(embedded(high, low)),
        // Protocol assignments: Teredo, benchmarks, and other forms that stand for another address.
        [0x2001, 0..=0x1ff, ..] => false,
        // Documentation, and 6to4, which embeds an IPv4 address.
        [0x2001, 0xdb8, ..] | [0x2002, ..] | [0x3fff, 0..=0xfff, ..] => false,
        // Global unicast is here, and nowhere else.
        [0x2000..=0x3fff, ..] => true,
        [..] => false,
    }
}

fn embedded(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(public: bool, addresses: &[&str]) {
        for text in addresses {
            assert_eq!(is_public(text.parse().unwrap()), public, "{text}");
        }
    }

    #[test]
    fn public_addresses_are_public() {
        check(
            true,
            &[
                "1.1.1.1",
                "8.8.8.8",
                "9.255.255.255",
                "11.0.0.0",
                "100.63.255.255",
                "100.128.0.0",
                "126.255.255.255",
                "128.0.0.0",
                "168.63.129.15",
                "172.15.255.255",
                "172.32.0.0",
                "192.0.1.0",
                "198.17.255.255",
                "198.20.0.0",
                "223.255.255.255",
                "::ffff:8.8.8.8",
                "2606:4700::1111",
                "2001:200::1",
                "2a00::1",
                "64:ff9b::8.8.8.8",
            ],
        );
    }

    #[test]
    fn private_and_reserved_addresses_are_not_public() {
        check(
            false,
            &[
                "0.0.0.0",
                "0.1.2.3",
                "10.0.0.1",
                "10.255.255.255",
                "100.64.0.1",
                "100.100.100.200",
                "127.0.0.1",
                "127.255.255.254",
                "168.63.129.16",
                "169.254.169.254",
                "172.16.0.1",
                "172.31.255.255",
                "192.0.0.192",
                "192.0.2.1",
                "192.88.99.1",
                "192.168.1.1",
                "198.18.0.1",
                "198.19.255.255",
                "198.51.100.7",
                "203.0.113.7",
                "224.0.0.1",
                "239.255.255.255",
                "240.0.0.1",
                "255.255.255.255",
            ],
        );
        check(
            false,
            &[
                "::",
                "::1",
                "::7f00:1",
                "::10.0.0.1",
                "::8.8.8.8",
                "::ffff:127.0.0.1",
                "::ffff:10.0.0.1",
                "::ffff:169.254.169.254",
                "64:ff9b::10.0.0.1",
                "64:ff9b::169.254.169.254",
                "64:ff9b:1::8.8.8.8",
                "100::1",
                "2001::1",
                "2001:0:7f00:1::",
                "2001:2::1",
                "2001:10::1",
                "2001:20::1",
                "2001:db8::1",
                "2002:7f00:1::1",
                "2002:a00:1::",
                "3fff::1",
                "4000::1",
                "5f00::1",
                "fc00::1",
                "fd00:ec2::254",
                "fe80::1",
                "febf::1",
                "fec0::1",
                "ff02::1",
            ],
        );
    }
}
