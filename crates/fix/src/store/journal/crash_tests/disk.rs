//! A disk that keeps for certain what was synced, and of the rest whatever the test chooses.

use super::trace::{Operation, Step};
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const PAGE_BYTES: usize = 4096;

/// Files by name, as found after a crash.
#[derive(Clone, Default)]
pub(super) struct Image {
    pub(super) files: BTreeMap<String, Vec<u8>>,
}

impl Image {
    pub(super) fn write_to(&self, folder: &Path) {
        for (name, bytes) in &self.files {
            fs::write(folder.join(name), bytes).unwrap();
        }
    }

    pub(super) fn without(&self, name: &str) -> Self {
        let mut image = self.clone();
        image.files.remove(name);
        image
    }

    pub(super) fn with(&self, name: &str, bytes: Vec<u8>) -> Self {
        let mut image = self.clone();
        image.files.insert(name.to_owned(), bytes);
        image
    }
}

#[derive(Clone, Debug)]
enum Name {
    Link(String, u64),
    Rename(String, String),
    Unlink(String),
}

#[derive(Clone, Debug)]
enum Change {
    Write(usize, Vec<u8>),
    Length(usize),
}

#[derive(Clone, Default)]
struct Inode {
    durable: Vec<u8>,
    pending: Vec<Change>,
}

impl Inode {
    /// With as many of the pending changes as `reaches` says of each block, and of the length.
    fn bytes(&self, block_bytes: usize, reaches: &mut dyn FnMut(Option<usize>, usize) -> usize) -> Vec<u8> {
        let all = self.pending.len();
        if all == 0 {
            return self.durable.clone();
        }
        let mut bytes = self.durable.clone();
        let mut length = bytes.len();
        let reach = reaches(None, all);
        let mut blocks: HashMap<usize, usize> = HashMap::new();
        for (number, change) in self.pending.iter().enumerate() {
            let (at, written) = match change {
                Change::Write(at, written) => (*at, written),
                Change::Length(bytes) => {
                    length = if number < reach { *bytes } else { length };
                    continue;
                }
            };
            let end = at + written.len();
            length = if number < reach { length.max(end) } else { length };
            bytes.resize(bytes.len().max(end), 0);
            for block in at / block_bytes..end.div_ceil(block_bytes) {
                let reach = *blocks.entry(block).or_insert_with(|| reaches(Some(block), all));
                if number < reach {
                    let (from, to) = (at.max(block * block_bytes), end.min((block + 1) * block_bytes));
                    bytes[from..to].copy_from_slice(&written[from - at..to - at]);
                }
            }
        }
        bytes.resize(length, 0);
        bytes
    }

    fn dirty_pages(&self) -> Vec<usize> {
        let mut pages = Vec::new();
        for change in &self.pending {
            if let Change::Write(at, written) = change {
                pages.extend(at / PAGE_BYTES..(at + written.len()).div_ceil(PAGE_BYTES));
            }
        }
        pages.sort_unstable();
        pages.dedup();
        pages
    }
}

#[derive(Clone, Default)]
pub(super) struct Disk {
    names: BTreeMap<String, u64>,
    pending: Vec<Name>,
    inodes: HashMap<u64, Inode>,
}

fn rename(names: &mut BTreeMap<String, u64>, name: &Name) {
    match name {
        Name::Link(name, inode) => _ = names.insert(name.clone(), *inode),
        Name::Rename(from, to) => {
            if let Some(inode) = names.remove(from) {
                names.insert(to.clone(), inode);
            }
        }
        Name::Unlink(name) => _ = names.remove(name),
    }
}

impl Disk {
    /// One that has an image, which was written to `folder`, for certain.
    pub(super) fn of(image: &Image, folder: &Path) -> Self {
        let mut disk = Self::default();
        for (name, bytes) in &image.files {
            let inode = fs::metadata(folder.join(name)).unwrap().ino();
            disk.names.insert(name.clone(), inode);
            disk.inodes.insert(inode, Inode { durable: bytes.clone(), pending: Vec::new() });
        }
        disk
    }

    pub(super) fn apply(&mut self, step: &Step) {
        let inode = self.inodes.entry(step.inode).or_default();
        match &step.operation {
            Operation::Create => {
                *inode = Inode::default();
                self.pending.push(Name::Link(step.name.clone(), step.inode));
            }
            Operation::Allocate(bytes) | Operation::SetLen(bytes) => {
                inode.pending.push(Change::Length(*bytes as usize));
            }
            Operation::Write(at, bytes) => inode.pending.push(Change::Write(*at as usize, bytes.clone())),
            Operation::Sync => {
                inode.durable = inode.bytes(PAGE_BYTES, &mut |_, all| all);
                inode.pending.clear();
            }
            Operation::SyncFolder => self.pending.drain(..).for_each(|name| rename(&mut self.names, &name)),
            Operation::Rename(to) => {
                let to = to.file_name().unwrap().to_string_lossy().into_owned();
                self.pending.push(Name::Rename(step.name.clone(), to));
            }
            Operation::Remove => self.pending.push(Name::Unlink(step.name.clone())),
        }
    }

    fn image(
        &self,
        block_bytes: usize,
        keeps: &mut dyn FnMut() -> bool,
        reaches: &mut dyn FnMut(u64, Option<usize>, usize) -> usize,
    ) -> Image {
        let mut names = self.names.clone();
        self.pending.iter().filter(|_| keeps()).for_each(|name| rename(&mut names, name));
        let mut image = Image::default();
        for (name, inode) in names {
            let bytes = self.inodes[&inode].bytes(block_bytes, &mut |block, all| reaches(inode, block, all));
            image.files.insert(name, bytes);
        }
        image
    }

    /// Everything that was written.
    pub(super) fn all(&self) -> Image {
        self.image(PAGE_BYTES, &mut || true, &mut |_, _, all| all)
    }

    /// Nothing but what was synced.
    pub(super) fn none(&self) -> Image {
        self.image(PAGE_BYTES, &mut || false, &mut |_, _, _| 0)
    }

    /// Of each block, name and length any version since it was synced.
    pub(super) fn some(&self, random: &mut fastrand::Rng, block_bytes: usize) -> Image {
        let keeping = random.u8(..);
        let (mut names, mut blocks) = (random.fork(), random.fork());
        self.image(block_bytes, &mut || names.u8(..) < keeping, &mut |_, _, all| match blocks.u8(..3) {
            0 => 0,
            1 => all,
            _ => blocks.usize(..=all),
        })
    }

    /// Everything but one page, for each page that is not synced.
    pub(super) fn all_but_one(&self) -> Vec<Image> {
        let mut images = Vec::new();
        for (inode, pages) in self.inodes.iter().map(|(number, inode)| (*number, inode.dirty_pages())) {
            images.extend(pages.iter().map(|page| {
                let lost = |file, block| file == inode && block == Some(*page);
                self.image(PAGE_BYTES, &mut || true, &mut |file, block, all| if lost(file, block) { 0 } else { all })
            }));
        }
        images
    }

    /// Everything, and of a write that was cut off any words.
    pub(super) fn torn(&self, step: &Step, random: &mut fastrand::Rng) -> Option<Image> {
        let Operation::Write(at, bytes) = &step.operation else { return None };
        let name = self.all().files.keys().find(|name| self.inode(name) == Some(step.inode))?.clone();
        // The kernel copies what lies within one page in one go.
        if step.name.is_empty() && bytes.len() <= 8 || name.starts_with("manifest") {
            return None;
        }
        let mut image = self.all();
        let file = image.files.get_mut(&name)?;
        let end = *at as usize + bytes.len();
        file.resize(file.len().max(end), 0);
        for (number, word) in bytes.chunks(8).enumerate().filter(|_| random.bool()) {
            let from = *at as usize + 8 * number;
            file[from..from + word.len()].copy_from_slice(word);
        }
        Some(image)
    }

    fn inode(&self, name: &str) -> Option<u64> {
        let mut names = self.names.clone();
        self.pending.iter().for_each(|change| rename(&mut names, change));
        names.get(name).copied()
    }
}
