//! Ports for what a test starts.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    net::{Ipv4Addr, TcpListener},
};

/// Below the ports that the kernel lends to outgoing connections: while a server is stopped, a client
/// that tries to reach it must not be given its port.
const FIRST: u16 = 20_000;
const COUNT: u64 = 12_000;
const TRIES: usize = 100;

/// A port of 127.0.0.1 on which nobody listens. Somebody else may take it before its new owner does,
/// who then asks again.
pub(crate) fn free() -> u16 {
    let mut tries = std::iter::repeat_with(random).take(TRIES);
    tries.find(|port| is_free(*port)).expect("one of a hundred ports is free")
}

fn random() -> u16 {
    // The standard library's hash maps are seeded by the system: chance enough for a port.
    let chance = RandomState::new().build_hasher().finish() % COUNT;
    FIRST + u16::try_from(chance).expect("it is less than the count of ports")
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}
