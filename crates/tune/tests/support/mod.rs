//! Hosts written down: one text file becomes a tree of files.
//!
//! `path: value` is a file with one line, `path <<` up to `>>` one with several, `path -> target` a symbolic link. A range in braces
//! (`cpu{0-3}`) stands for each of its numbers, in the path and, as `{}`, in the value. A value `hex 0a00` is two bytes.

#![allow(dead_code)] // Each test program uses its share.

use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// The hosts of `tests/hosts`.
pub(crate) const HOSTS: [(&str, &str); 5] = [
    ("metal-intel-untuned", include_str!("../hosts/metal-intel-untuned.txt")),
    ("metal-amd-tuned", include_str!("../hosts/metal-amd-tuned.txt")),
    ("guest-firecracker", include_str!("../hosts/guest-firecracker.txt")),
    ("guest-ena-tuned", include_str!("../hosts/guest-ena-tuned.txt")),
    ("metal-intel-queues", include_str!("../hosts/metal-intel-queues.txt")),
];

/// A folder with the files of this text.
pub(crate) fn unpack(text: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some((path, target)) = line.split_once(" -> ") {
            let path = made(folder.path(), path);
            std::os::unix::fs::symlink(target, path).expect("a link");
        } else if let Some(path) = line.strip_suffix(" <<") {
            let body: Vec<&str> = lines.by_ref().take_while(|line| *line != ">>").collect();
            write(folder.path(), path, &(body.join("\n") + "\n"));
        } else {
            let (path, value) =
                line.split_once(": ").or(line.strip_suffix(':').map(|path| (path, ""))).expect("path: value");
            write(folder.path(), path, &format!("{value}\n"));
        }
    }
    folder
}

fn write(root: &Path, path: &str, text: &str) {
    let Some((head, rest)) = path.split_once('{') else {
        let bytes = text.strip_prefix("hex ").map_or_else(|| text.as_bytes().to_vec(), hex);
        return fs::write(made(root, path), bytes).expect("a file");
    };
    let (range, tail) = rest.split_once('}').expect("a range ends");
    let (first, last) = range.split_once('-').expect("a range has two ends");
    for number in first.parse::<u32>().expect("a number")..=last.parse().expect("a number") {
        let text = text.replace("{}", &number.to_string());
        write(root, &format!("{head}{number}{tail}"), &text);
    }
}

fn hex(digits: &str) -> Vec<u8> {
    let digits = digits.trim().as_bytes().chunks(2);
    digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).expect("text"), 16).expect("hex")).collect()
}

fn made(root: &Path, path: &str) -> std::path::PathBuf {
    let path = root.join(path);
    fs::create_dir_all(path.parent().expect("a path has a folder")).expect("folders");
    path
}

/// Every file below a folder with its bytes.
pub(crate) fn bytes(folder: &Path) -> std::collections::BTreeMap<std::path::PathBuf, Vec<u8>> {
    let mut found = std::collections::BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder").flatten() {
            let path = entry.path();
            match entry.file_type().expect("a type") {
                kind if kind.is_dir() => folders.push(path),
                kind if kind.is_file() => _ = found.insert(path.clone(), fs::read(&path).expect("a file")),
                _ => {}
            }
        }
    }
    found
}
