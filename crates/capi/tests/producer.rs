//! `ring_producer.h` against crate `ring`: the same messages, the same bytes, read with exact loss.

mod support;

use sidestep_ring::broadcast::{Publisher, Start, Subscriber};
use sidestep_ring::layout::{BEAT, HEADER_BYTES, PID_NAMESPACE_AT, WRITER_ROLE_AT};
use sidestep_ring::{Cell, Kind, Loss, Options, ReadError, Segment, Waking, kernel_header, kernel_ring_bytes};
use sidestep_sys::memory::{Access, Mapping, allocate, memfd, seal_size};
use std::ffi::{CStr, CString, c_void};
use std::fs::{self, File};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{compile, include};

/// Words that differ by nature: a ring that a process writes names the process and its pid namespace, and beats.
const OF_PROCESSES: [usize; 3] = [PID_NAMESPACE_AT, WRITER_ROLE_AT, WRITER_ROLE_AT + BEAT];

type Handle = *mut c_void;
type New = unsafe extern "C" fn(base: *mut u8, cells: u64) -> Handle;
type Free = unsafe extern "C" fn(Handle);
type Message = unsafe extern "C" fn(Handle, base: *mut u8, cells: u64, data: *const u8, length: u64);
type Dropped = unsafe extern "C" fn(Handle, base: *mut u8);
type Run = unsafe extern "C" fn(Handle, base: *mut u8, cells: u64, count: u64);

/// The calls of `producer.c`; never unloaded.
#[derive(Clone, Copy)]
struct Library {
    new: New,
    free: Free,
    publish: Message,
    abort: Message,
    dropped: Dropped,
    run: Run,
}

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/producer.c")
}

fn library() -> Library {
    let folder = tempfile::tempdir().unwrap();
    let object = folder.path().join("libproducer.so");
    let include = include();
    let how = ["cc", "-std=gnu99", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"];
    compile(&how, &source(), &["-I".as_ref(), include.as_os_str()], &object).unwrap();
    let name = CString::new(object.as_os_str().as_bytes()).unwrap();
    // SAFETY: the name is a C string, and the library, which has no constructor, runs nothing.
    let opened = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    assert!(!opened.is_null(), "the library was just made");
    let symbol = |name: &CStr| {
        // SAFETY: the handle is that of a library which is never closed.
        let found = unsafe { libc::dlsym(opened, name.as_ptr()) };
        assert!(!found.is_null(), "{name:?}");
        found
    };
    // SAFETY: the types are those of producer.c.
    unsafe {
        Library {
            new: std::mem::transmute::<Handle, New>(symbol(c"producer_new")),
            free: std::mem::transmute::<Handle, Free>(symbol(c"producer_free")),
            publish: std::mem::transmute::<Handle, Message>(symbol(c"producer_publish")),
            abort: std::mem::transmute::<Handle, Message>(symbol(c"producer_abort")),
            dropped: std::mem::transmute::<Handle, Dropped>(symbol(c"producer_drop")),
            run: std::mem::transmute::<Handle, Run>(symbol(c"producer_run")),
        }
    }
}

/// A ring in a memfd, written by C.
struct Producer {
    library: Library,
    handle: Handle,
    memory: Mapping,
    file: OwnedFd,
    cells: u64,
}

// SAFETY: the handle is used by the thread that has this object.
unsafe impl Send for Producer {}

impl Producer {
    fn new(library: Library, cells: u64) -> Self {
        let bytes = kernel_ring_bytes(cells);
        let file = memfd("sidestep-test", false).unwrap();
        allocate(file.as_fd(), bytes).unwrap();
        seal_size(file.as_fd()).unwrap();
        let memory = Mapping::shared(file.as_fd(), bytes, Access::ReadWrite).unwrap();
        // SAFETY: the memory has the size of a ring of this many cells, and is zeroed.
        let handle = unsafe { (library.new)(memory.base().as_ptr(), cells) };
        Self { library, handle, memory, file, cells }
    }

    fn call(&mut self, call: Message, message: &[u8]) {
        let (base, length) = (self.memory.base().as_ptr(), message.len() as u64);
        assert!(message.len() <= longest(self.cells));
        // SAFETY: the memory is that of `new`, and the message is not longer than the ring's longest.
        unsafe { call(self.handle, base, self.cells, message.as_ptr(), length) };
    }

    fn publish(&mut self, message: &[u8]) {
        self.call(self.library.publish, message);
    }

    fn attach(&self) -> Segment {
        Segment::foreign(self.file.try_clone().unwrap(), 0, self.memory.len()).unwrap()
    }

    fn bytes(&self) -> Vec<u8> {
        bytes(self.file.try_clone().unwrap(), self.cells)
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        // SAFETY: the handle is of `new` and is not used any more.
        unsafe { (self.library.free)(self.handle) };
    }
}

/// SIDESTEP_RING_MESSAGE_BYTES_MAX.
fn longest(cells: u64) -> usize {
    usize::try_from(cells / 4 * 64 - 8).unwrap()
}

fn bytes(file: OwnedFd, cells: u64) -> Vec<u8> {
    let mut bytes = vec![0; kernel_ring_bytes(cells)];
    File::from(file).read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

/// A ring of the same size, written by crate `ring`.
fn twin(cells: u64) -> (Segment, Publisher) {
    let bytes = usize::try_from(cells).unwrap() * Cell::Line.bytes();
    let options = Options { kind: Kind::Broadcast, cell: Cell::Line, bytes, waking: Waking::Never };
    let segment = Segment::memfd(&options).unwrap();
    let publisher = segment.publisher().unwrap();
    assert_eq!(publisher.message_bytes_max(), longest(cells));
    (segment, publisher)
}

fn assert_same(c: &Producer, rust: &Segment, when: &str) {
    let [mut ours, mut theirs] = [c.bytes(), bytes(rust.fd().try_clone_to_owned().unwrap(), c.cells)];
    for at in OF_PROCESSES {
        ours[at..at + 8].fill(0);
        theirs[at..at + 8].fill(0);
    }
    let differs = ours.iter().zip(&theirs).position(|(ours, theirs)| ours != theirs);
    assert_eq!(differs, None, "the first byte that differs, {when}");
}

/// A message of a random length, whose bytes are random, or zeroes, or words of records that could stand there.
fn message(random: &mut fastrand::Rng, cells: u64, near: u64) -> Vec<u8> {
    let longest = longest(cells);
    let length = match random.u8(..8) {
        0 => 0,
        1 => longest,
        2 => random.usize(..=longest),
        3 => longest - random.usize(..8),
        _ => random.usize(..=longest.min(200)),
    };
    let mut bytes = vec![0; length];
    match random.u8(..3) {
        0 => {}
        1 => random.fill(&mut bytes),
        _ => {
            for word in bytes.chunks_mut(8) {
                let position = near + random.u64(..3 * cells);
                let kind = random.u64(..4);
                let forged = position << 32 | 1 << 31 | kind << 29 | random.u64(..200);
                word.copy_from_slice(&forged.to_ne_bytes()[..word.len()]);
            }
        }
    }
    bytes
}

/// A reader, and what it has to find.
struct Checked {
    reader: Subscriber,
    buffer: Vec<u8>,
}

impl Checked {
    fn new(ring: &Segment) -> Self {
        let reader = ring.subscriber(Start::Oldest).unwrap();
        Self { buffer: vec![0; reader.message_bytes_max()], reader }
    }

    /// Reads all that is there; the messages and bytes of each loss are exactly those that it has not read.
    fn drain(&mut self, sent: &[Vec<u8>]) -> Loss {
        let mut lost = Loss::default();
        loop {
            let next = usize::try_from(self.reader.sequence()).unwrap();
            match self.reader.try_read(&mut self.buffer) {
                Ok(length) => assert_eq!(self.buffer[..length], sent[next], "message {next}"),
                Err(ReadError::Lost(loss)) => {
                    let skipped = &sent[next..next + usize::try_from(loss.messages).unwrap()];
                    assert_eq!(loss.bytes, skipped.iter().map(|message| message.len() as u64).sum::<u64>());
                    lost.messages += loss.messages;
                    lost.bytes += loss.bytes;
                }
                Err(ReadError::Empty) => break,
                Err(other) => panic!("{other}"),
            }
        }
        assert_eq!(self.reader.sequence(), sent.len() as u64, "all that was sent is read or lost");
        lost
    }
}

#[test]
fn the_header_is_that_of_the_library() {
    let library = library();
    for cells in [4, 64, 4096] {
        let bytes = Producer::new(library, cells).bytes();
        assert_eq!(bytes[..HEADER_BYTES], kernel_header(cells).unwrap(), "{cells} cells");
        assert!(bytes[HEADER_BYTES..].iter().all(|byte| *byte == 0));
    }
}

#[test]
fn the_same_messages_make_the_same_bytes() {
    let library = library();
    let mut all_lost = 0;
    for seed in 0..66 {
        let mut random = fastrand::Rng::with_seed(seed);
        let cells = 4 << (seed % 11);
        let (mut c, (rust, mut publisher)) = (Producer::new(library, cells), twin(cells));
        let ring = c.attach();
        let mut readers = [Checked::new(&ring), Checked::new(&ring)];
        let mut other = Checked::new(&rust);
        let mut sent = Vec::new();
        for _ in 0..random.usize(100..600) {
            let near = ring.stat().written.cells;
            let message = message(&mut random, cells, near);
            c.publish(&message);
            publisher.publish(&message).unwrap();
            sent.push(message);
            if cells <= 64 || random.u8(..) == 0 {
                assert_same(&c, &rust, &format!("seed {seed}, {cells} cells, message {}", sent.len()));
            }
            // One reader keeps up, the others are lapped; those two lose the same.
            assert_eq!(readers[0].drain(&sent), Loss::default());
            if random.u8(..40) == 0 {
                let lost = readers[1].drain(&sent);
                assert_eq!(lost, other.drain(&sent));
                all_lost += lost.messages;
            }
        }
        assert_same(&c, &rust, &format!("seed {seed}, {cells} cells, at the end"));
        let lost = readers[1].drain(&sent);
        assert_eq!(lost, other.drain(&sent));
        all_lost += lost.messages;
        assert_eq!(ring.stat().written, rust.stat().written);
    }
    assert!(all_lost > 1000, "laps were tried: {all_lost}");
}

#[test]
fn what_is_taken_back_is_not_seen_and_drops_are_counted() {
    let mut c = Producer::new(library(), 16);
    let ring = c.attach();
    let mut reader = Checked::new(&ring);
    let mut sent = Vec::new();
    for number in 0..200_u8 {
        c.call(c.library.abort, &[255 - number; 100]);
        assert_eq!(reader.drain(&sent), Loss::default());
        let message = vec![number; usize::from(number) % 150];
        c.publish(&message);
        sent.push(message);
        assert_eq!(reader.drain(&sent), Loss::default());
    }
    // SAFETY: the memory is that of the handle.
    unsafe { (c.library.dropped)(c.handle, c.memory.base().as_ptr()) };
    let stat = ring.stat();
    assert_eq!((stat.dropped, stat.written.messages, stat.abandoned, stat.fault), (1, 200, 0, None));
}

/// The producer of a kernel and a reader at the same time.
#[test]
fn a_reader_beside_a_running_producer_sees_no_torn_message_and_counts_its_loss() {
    const MESSAGES: u64 = 1_000_000;
    let library = library();
    for cells in [64, 1024] {
        let producer = Producer::new(library, cells);
        let ring = producer.attach();
        let mut readers = [Start::Oldest, Start::Latest].map(|start| ring.subscriber(start).unwrap());
        let base = producer.memory.base().as_ptr().expose_provenance();
        let writer = std::thread::spawn(move || {
            let base = std::ptr::with_exposed_provenance_mut(base);
            // SAFETY: the memory is that of the handle, both live in this thread, and the messages are short enough.
            unsafe { (producer.library.run)(producer.handle, base, producer.cells, MESSAGES) };
            producer
        });
        let mut buffer = [0; 1 << 14];
        let mut counts = [(0_u64, Loss::default()); 2];
        let mut is_over = false;
        while !is_over {
            is_over = writer.is_finished();
            for (reader, (read, lost)) in readers.iter_mut().zip(&mut counts) {
                loop {
                    let sequence = reader.sequence();
                    match reader.try_read(&mut buffer) {
                        Ok(length) => {
                            let whole = u64::to_ne_bytes(sequence).repeat(usize::try_from(sequence % 30).unwrap() + 1);
                            assert_eq!(buffer[..length], whole, "torn, or not the one whose turn it is");
                            *read += 1;
                        }
                        Err(ReadError::Lost(loss)) => {
                            let bytes = (sequence..sequence + loss.messages).map(|number| 8 * (number % 30 + 1)).sum();
                            assert_eq!(loss.bytes, bytes);
                            lost.messages += loss.messages;
                        }
                        Err(ReadError::Empty) => break,
                        Err(other) => panic!("{other}"),
                    }
                }
            }
        }
        let _producer = writer.join().unwrap();
        for (read, lost) in counts {
            assert_eq!(read + lost.messages, MESSAGES, "{cells} cells");
            assert!(read > 0);
        }
    }
}

/// The compiler's ThreadSanitizer on the producer beside a thread that loads every word: all stores are atomic. A version with
/// plain stores is caught, or the sanitizer has seen nothing.
#[test]
fn the_sanitizer_finds_no_race_with_a_reader() {
    if Command::new("gcc").arg("--version").output().is_err() {
        eprintln!("skipped: gcc is not installed");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (program, include, racer) = (folder.path().join("racer"), include(), source().with_file_name("racer.c"));
    let plain = ["STORE(word,value)=(*(word)=(value))", "STORE_RELEASE(word,value)=(*(word)=(value))", "FENCE(word)"];
    let plain = plain.map(|macro_| format!("-DSIDESTEP_RING_{macro_}"));
    for (definitions, races) in [(&[][..], false), (&plain[..], true)] {
        // GCC says that its sanitizer ignores fences; what they order is not what is asked here.
        let mut how = vec!["gcc", "-std=gnu99", "-O1", "-fsanitize=thread", "-Wno-tsan", "-pthread"];
        how.extend(definitions.iter().map(String::as_str));
        let more = ["-I".as_ref(), include.as_os_str(), racer.as_os_str()];
        if let Err(why) = compile(&how, &source(), &more, &program) {
            eprintln!("skipped: no gcc with ThreadSanitizer: {why}");
            return;
        }
        let output = Command::new(&program).output().unwrap();
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        if words.contains("unexpected memory mapping") {
            eprintln!("skipped: the sanitizer does not work on this kernel: {words}");
            return;
        }
        assert_eq!(words.contains("data race"), races, "{words}");
        assert_eq!(output.status.success(), !races, "{words}");
    }
}

#[test]
fn the_header_compiles_without_a_warning() {
    let include = include();
    let folder = tempfile::tempdir().unwrap();
    let as_cxx = folder.path().join("producer.cc");
    fs::copy(source(), &as_cxx).unwrap();
    let mut tried = 0;
    for (compiler, standard, source) in [
        ("gcc", "-std=gnu99", source()),
        ("gcc", "-std=gnu17", source()),
        ("clang", "-std=gnu99", source()),
        ("g++", "-std=gnu++11", as_cxx.clone()),
        ("clang++", "-std=gnu++11", as_cxx.clone()),
    ] {
        if Command::new(compiler).arg("--version").output().is_err() {
            eprintln!("skipped: {compiler} is not installed");
            continue;
        }
        for level in ["-O0", "-O2"] {
            let how = [compiler, standard, level, "-Wall", "-Wextra", "-Werror", "-Wundef", "-Wshadow", "-c"];
            let made = compile(&how, &source, &["-I".as_ref(), include.as_os_str()], &folder.path().join("object"));
            assert_eq!(made, Ok(()), "{compiler} {standard} {level}");
        }
        tried += 1;
    }
    assert!(tried > 0, "some compiler is there: the library's tests need one");
}
