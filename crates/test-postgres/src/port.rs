//! Free ports for servers that a test starts.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    net::{Ipv4Addr, TcpListener},
};

/// Below the ports that the kernel gives to outgoing connections: while a server is stopped, a
/// client that tries to reach it must not get its port.
const FIRST: u16 = 20_000;
const COUNT: u64 = 12_000;
const TRIES: usize = 100;

/// A free port of 127.0.0.1. Another program may take it before the caller does; the caller then
/// asks for another.
pub(crate) fn free() -> u16 {
    let mut tries = std::iter::repeat_with(random).take(TRIES);
    tries.find(|port| is_free(*port)).expect("one of a hundred ports is free")
}

fn random() -> u16 {
    // The standard library seeds its hash maps from the system: random enough for a port.
    let chance = RandomState::new().build_hasher().finish() % COUNT;
    FIRST + u16::try_from(chance).expect("it is less than the count of ports")
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}
