//! What keeping an order and its two reports costs: ns for one commit of an inbound number and two messages of 200 bytes.
//!
//! cargo run --release -p sidestep-fix --example journal_cost -- FOLDER

use sidestep_fix::store::journal::{Durability, Journal, Options, Writing};
use sidestep_fix::store::{MemoryStore, Store};
use std::path::PathBuf;
use std::time::Instant;

const MESSAGE: [u8; 200] = [b'x'; 200];

fn percentile(samples: &mut [u64], share: f64) -> u64 {
    samples.sort_unstable();
    samples[((samples.len() - 1) as f64 * share) as usize]
}

fn print(name: &str, samples: &mut [u64]) {
    let [half, high, higher] = [0.5, 0.99, 0.999].map(|share| percentile(samples, share));
    println!(
        "{name:<24} {half:>8} {high:>8} {higher:>8} {:>10}   {} samples",
        samples[samples.len() - 1],
        samples.len()
    );
}

fn record(store: &mut impl Store) {
    let seq = store.next_outbound();
    store.record_inbound(store.next_inbound() + 1).expect("it is kept");
    store.record_outbound(seq, &MESSAGE).expect("it is kept");
    store.record_outbound(seq + 1, &MESSAGE).expect("it is kept");
}

fn journal(name: &str, folder: &std::path::Path, options: Options, count: usize) {
    let folder = folder.join(name);
    let (mut journal, _) = Journal::open(&folder, "cost", options, 0).expect("it opens");
    if options.writing == Writing::Mapped && options.durability == Durability::PageCache && !journal.is_mapped() {
        println!("{name:<24} is written by calls: this file system does not write in place");
    }
    let mut samples = Vec::with_capacity(count);
    for _ in 0..count {
        let begin = Instant::now();
        record(&mut journal);
        journal.commit().expect("it is written");
        while !journal.is_durable().expect("the disk works") {
            std::hint::spin_loop();
        }
        samples.push(begin.elapsed().as_nanos() as u64);
    }
    print(name, &mut samples);
    println!("{:<24} {} times a segment was waited for", "", journal.rolls_waited());
    drop(journal);
    let begin = Instant::now();
    let (_, recovery) = Journal::open(&folder, "cost", options, 0).expect("it opens again");
    println!("{:<24} {} records read back in {:?}", "", recovery.records, begin.elapsed());
    let _ = std::fs::remove_dir_all(&folder);
}

fn main() {
    let folder = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    println!("{:<24} {:>8} {:>8} {:>8} {:>10}   ns per order", "store", "p50", "p99", "p99.9", "max");
    let mut memory = MemoryStore::new(0);
    let mut samples: Vec<u64> = (0..200_000)
        .map(|_| {
            let begin = Instant::now();
            record(&mut memory);
            begin.elapsed().as_nanos() as u64
        })
        .collect();
    print("none", &mut samples);
    journal("page-cache, mapped", &folder, Options::DEFAULT, 200_000);
    journal("page-cache, by calls", &folder, Options { writing: Writing::Call, ..Options::DEFAULT }, 200_000);
    journal("group-commit", &folder, Options { durability: Durability::Disk, ..Options::DEFAULT }, 2_000);
}
