//! Messages with borders.

use crate::support::{DatagramEnd, WAITINGS, again, datagram_pair, options, pattern};
use sidestep_socket::stream::Waiting;
use sidestep_socket::stream::shm::{RING_BYTES_MIN, Settings};
use std::io::{self, ErrorKind};

fn datagrams(ring_bytes: usize, waiting: Waiting) -> (DatagramEnd, DatagramEnd) {
    datagram_pair(&Settings { ring_bytes, ..Settings::default() }, &options(waiting))
}

fn recv(link: &mut DatagramEnd, buffer: &mut [u8]) -> io::Result<usize> {
    again(|| link.recv(buffer))
}

#[test]
fn borders_are_kept_and_none_is_lost() {
    for waiting in WAITINGS {
        let (mut client, mut server) = datagrams(RING_BYTES_MIN, waiting);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                for length in 1..1500 {
                    let taken = again(|| client.send(&pattern(length))).expect("the link is up");
                    assert_eq!(taken, length, "a datagram is taken whole");
                }
                client.shutdown();
            });
            let mut buffer = [0; 2000];
            for length in 1..1500 {
                assert_eq!(recv(&mut server, &mut buffer).expect("the link is up"), length);
                assert!(buffer[..length] == pattern(length));
            }
            assert_eq!(recv(&mut server, &mut buffer).expect("an end is no error"), 0);
        });
    }
}

#[test]
fn a_long_one_is_cut_and_the_next_is_whole() {
    for waiting in WAITINGS {
        let (mut client, mut server) = datagrams(RING_BYTES_MIN, waiting);
        for message in [&b"abcdefgh"[..], b"next"] {
            client.send(message).expect("there is room");
        }
        let mut buffer = [0; 4];
        assert_eq!(recv(&mut server, &mut buffer).expect("it was sent"), 4);
        assert_eq!(&buffer, b"abcd");
        assert_eq!(recv(&mut server, &mut buffer).expect("it was sent"), 4);
        assert_eq!(&buffer, b"next");
    }
}

#[test]
fn what_can_never_be_sent_is_refused() {
    let (mut client, mut server) = datagrams(RING_BYTES_MIN, Waiting::Spin);
    let longest = RING_BYTES_MIN / 2 - 8;
    let too_long = client.send(&pattern(longest + 1)).expect_err("it never fits");
    assert_eq!(too_long.raw_os_error(), Some(libc::EMSGSIZE));
    assert_eq!(client.send(b"").expect_err("it would look like the end").kind(), ErrorKind::InvalidInput);
    assert_eq!(client.send(&pattern(longest)).expect("it fits"), longest);
    let mut buffer = vec![0; longest + 10];
    assert_eq!(recv(&mut server, &mut buffer).expect("it was sent"), longest);
    assert!(buffer[..longest] == pattern(longest));
}

#[test]
fn the_default_takes_the_longest_of_udp() {
    let (mut client, mut server) = datagram_pair(&Settings::default(), &options(Waiting::Spin));
    assert_eq!(client.send(&pattern(65_507)).expect("it fits"), 65_507);
    assert_eq!(recv(&mut server, &mut vec![0; 65_536]).expect("it was sent"), 65_507);
}
