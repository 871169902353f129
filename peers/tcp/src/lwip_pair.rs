//! lwIP, by its raw interface: `lwip/host.c`, a shared library that is loaded twice, from two copies of the
//! file, as lwIP has one host in a process. Its settings stand in `lwip/lwipopts.h`. What is sent is copied, as by the others; what comes is taken where it lies.

use crate::contestant::{ADDRESSES, BLOCK, Contestant, FIRST_PORT, MACS, MESSAGE, PORT, ROUND_NS};
use crate::wire::Wire;
use libloading::Library;
use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::ptr;

/// What an ACK is delayed by (TCP_TMR_INTERVAL): where nothing else is missing the clock is put forward, as the turns of a loop that waits
/// are none of its cost. Shorter, it would send the ACKs of many connections before they can ride on answers.
const DELAYED_ACK_NS: u64 = 250_000_000;

/// How a host sends: `struct wire_calls`.
#[repr(C)]
struct WireCalls {
    place: unsafe extern "C" fn(*mut c_void) -> *mut u8,
    sent: unsafe extern "C" fn(*mut c_void, usize),
}

/// SAFETY: `wire` is a [`Wire`] that nobody else uses meanwhile.
unsafe extern "C" fn place(wire: *mut c_void) -> *mut u8 {
    // SAFETY: as the caller says.
    let wire = unsafe { &mut *wire.cast::<Wire>() };
    wire.place().map_or(ptr::null_mut(), |place| place.as_mut_ptr())
}

/// SAFETY: as of [`place`], and so many bytes were written to it.
unsafe extern "C" fn sent(wire: *mut c_void, bytes: usize) {
    // SAFETY: as the caller says.
    unsafe { &mut *wire.cast::<Wire>() }.sent(bytes);
}

macro_rules! calls {
    ($($name:ident: $signature:ty;)*) => {
        /// The calls of `host.c`.
        struct Calls {
            $($name: $signature,)*
        }

        impl Calls {
            /// SAFETY: the library is that of `host.c`, and is open as long as the calls are used.
            unsafe fn of(library: &Library) -> Result<Self, libloading::Error> {
                // SAFETY: the types are those of `host.c`.
                Ok(Self { $($name: *unsafe { library.get::<$signature>(stringify!($name).as_bytes()) }?,)* })
            }
        }
    };
}

calls! {
    host_begin: unsafe extern "C" fn(*mut c_void, WireCalls, *const u8, *const u8, *const u8, *const u8) -> bool;
    host_listen: unsafe extern "C" fn(*mut c_void, u16) -> bool;
    host_connect: unsafe extern "C" fn(*mut c_void, u16, *const u8, u16) -> bool;
    host_is_established: unsafe extern "C" fn(usize) -> bool;
    host_has_unacknowledged: unsafe extern "C" fn(usize) -> bool;
    host_room: unsafe extern "C" fn(usize) -> usize;
    host_write: unsafe extern "C" fn(usize, *const u8, usize) -> bool;
    host_output: unsafe extern "C" fn(*mut c_void, usize);
    host_input: unsafe extern "C" fn(*mut c_void, *mut u8, u16) -> bool;
    host_take_received: unsafe extern "C" fn(*mut usize) -> usize;
    host_set_time: unsafe extern "C" fn(*mut c_void, u32);
}

/// One host. Every call of it is of a thread alone and of a connection that exists, which is what `host.c` asks for.
struct Host {
    calls: Calls,
    /// Closed after the calls' last use; closed, its state is gone.
    _library: Library,
}

fn raw(wire: &mut Wire) -> *mut c_void {
    ptr::from_mut(wire).cast()
}

impl Host {
    fn new(host: usize, library: &Path, into: &mut Wire) -> Self {
        // SAFETY: `host.c`, which has no initializers.
        let library = unsafe { Library::new(library) }.unwrap_or_else(|error| panic!("lwIP: {error}"));
        // SAFETY: the library stays open with them.
        let calls = unsafe { Calls::of(&library) }.unwrap_or_else(|error| panic!("lwIP: {error}"));
        let peer = 1 - host;
        let how = WireCalls { place, sent };
        // SAFETY: four addresses, of four and six bytes, in turn.
        let has_begun = unsafe {
            let (ip, mac) = (ADDRESSES[host].as_ptr(), MACS[host].as_ptr());
            (calls.host_begin)(raw(into), how, ip, mac, ADDRESSES[peer].as_ptr(), MACS[peer].as_ptr())
        };
        assert!(has_begun, "lwIP: the host does not begin, or the library was loaded before");
        Self { calls, _library: library }
    }

    fn listen(&mut self, into: &mut Wire) {
        // SAFETY: see `Host`.
        assert!(unsafe { (self.calls.host_listen)(raw(into), PORT) }, "lwIP: no listener");
    }

    fn connect(&mut self, from_port: u16, into: &mut Wire) {
        // SAFETY: see `Host`; the address has four bytes.
        let is_made = unsafe { (self.calls.host_connect)(raw(into), from_port, ADDRESSES[1].as_ptr(), PORT) };
        assert!(is_made, "lwIP: no connection");
    }

    fn is_established(&self, connection: usize) -> bool {
        // SAFETY: see `Host`; a number that is none is asked for, too.
        unsafe { (self.calls.host_is_established)(connection) }
    }

    #[inline]
    fn room(&self, connection: usize) -> usize {
        // SAFETY: see `Host`.
        unsafe { (self.calls.host_room)(connection) }
    }

    #[inline]
    fn has_unacknowledged(&self, connection: usize) -> bool {
        // SAFETY: see `Host`.
        unsafe { (self.calls.host_has_unacknowledged)(connection) }
    }

    /// False if there is no room.
    #[inline]
    fn write(&mut self, connection: usize, bytes: &[u8]) -> bool {
        // SAFETY: see `Host`; the bytes are copied.
        unsafe { (self.calls.host_write)(connection, bytes.as_ptr(), bytes.len()) }
    }

    #[inline]
    fn output(&mut self, connection: usize, into: &mut Wire) {
        // SAFETY: see `Host`.
        unsafe { (self.calls.host_output)(raw(into), connection) }
    }

    /// Takes what is on the wire.
    #[inline]
    fn receive(&mut self, from: &mut Wire, into: &mut Wire) {
        while let Some(frame) = from.front_mut() {
            // SAFETY: see `Host`; the frame stays as it is until it is free, which is asserted.
            let is_free = unsafe { (self.calls.host_input)(raw(into), frame.as_mut_ptr(), frame.len() as u16) };
            assert!(is_free, "lwIP keeps a frame");
            from.pop();
        }
    }

    /// The bytes received since the last call, and of which connection the last were.
    #[inline]
    fn take_received(&mut self) -> (usize, usize) {
        let mut connection = 0;
        // SAFETY: see `Host`.
        let bytes = unsafe { (self.calls.host_take_received)(&raw mut connection) };
        (bytes, connection)
    }

    fn set_time(&mut self, ms: u32, into: &mut Wire) {
        // SAFETY: see `Host`.
        unsafe { (self.calls.host_set_time)(raw(into), ms) }
    }
}

/// Both hosts.
pub struct LwipPair {
    now_ns: u64,
    now_ms: u32,
    client: Host,
    server: Host,
    there: Wire,
    back: Wire,
}

impl LwipPair {
    /// With so many connections, all of them made, by the two files of the library.
    pub fn connected(connections: usize, libraries: &[PathBuf; 2]) -> Self {
        let (mut there, mut back) = (Wire::new(), Wire::new());
        let client = Host::new(0, &libraries[0], &mut there);
        let server = Host::new(1, &libraries[1], &mut back);
        let mut pair = Self { now_ns: 0, now_ms: 0, client, server, there, back };
        pair.server.listen(&mut pair.back);
        for number in 0..connections {
            pair.client.connect(FIRST_PORT + number as u16, &mut pair.there);
            (0..2).for_each(|_| pair.pass_frames());
            assert!(
                pair.client.is_established(number) && pair.server.is_established(number),
                "no connection comes about"
            );
        }
        pair
    }

    fn pass_frames(&mut self) {
        self.server.receive(&mut self.there, &mut self.back);
        self.client.receive(&mut self.back, &mut self.there);
    }

    #[inline]
    fn advance(&mut self) {
        self.now_ns += ROUND_NS;
        let now_ms = (self.now_ns / 1_000_000) as u32;
        if now_ms != self.now_ms {
            self.now_ms = now_ms;
            self.client.set_time(now_ms, &mut self.there);
            self.server.set_time(now_ms, &mut self.back);
            // The ACKs of many connections are due at once, and would fill the wire.
            self.pass_frames();
        }
    }
}

impl Contestant for LwipPair {
    #[inline]
    fn ping(&mut self, connection: usize) {
        self.advance();
        let Self { client, server, there, back, .. } = self;
        assert!(client.write(connection, &MESSAGE));
        client.output(connection, there);
        server.receive(there, back);
        let (bytes, asked) = server.take_received();
        assert_eq!(bytes, MESSAGE.len());
        assert!(server.write(asked, &MESSAGE));
        server.output(asked, back);
        client.receive(back, there);
        assert_eq!(client.take_received(), (MESSAGE.len(), connection));
    }

    fn stream(&mut self, bytes: usize) {
        let (mut given, mut arrived) = (0, 0);
        while arrived < bytes || self.client.has_unacknowledged(0) {
            if arrived == bytes {
                self.now_ns += DELAYED_ACK_NS;
            }
            self.advance();
            let Self { client, server, there, back, .. } = self;
            while given < bytes {
                let block = &BLOCK[..BLOCK.len().min(bytes - given).min(client.room(0))];
                if block.is_empty() || !client.write(0, block) {
                    break;
                }
                given += block.len();
            }
            client.output(0, there);
            server.receive(there, back);
            arrived += server.take_received().0;
            client.receive(back, there);
        }
    }

    fn frames(&self) -> (u64, u64) {
        (self.there.carried + self.back.carried, self.there.with_data + self.back.with_data)
    }
}
