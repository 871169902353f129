//! NUMA nodes: which exist, and whose memory this thread takes (set_mempolicy(2)).

use crate::Problem;
use crate::proc::Roots;
use std::io;

/// The number of nodes in our mask; Linux is built for at most 1024 (CONFIG_NODES_SHIFT).
const NODES_MAX: usize = 1024;
const BITS: usize = u64::BITS as usize;

/// The nodes that have memory, in order; empty if the kernel does not report nodes.
pub(crate) fn with_memory(roots: &Roots) -> Vec<u32> {
    let list = roots.sys("devices/system/node/has_memory");
    let range = |part: &str| {
        let (first, last) = part.trim().split_once('-').unwrap_or((part.trim(), part.trim()));
        Some(first.parse::<u32>().ok()?..=last.parse::<u32>().ok()?.min(NODES_MAX as u32))
    };
    list.split(',').filter_map(range).flatten().collect()
}

/// Makes the calling thread, its future threads and programs that it executes take memory of this node alone
/// (MPOL_BIND): when that is used up, an allocation fails. Memory that it already has stays where it is.
pub fn bind(node: u32) -> Result<(), Problem> {
    let nodes = with_memory(&Roots::default());
    let what = || format!("cannot take memory of NUMA node {node}");
    if !nodes.contains(&node) {
        let names: Vec<String> = nodes.iter().map(u32::to_string).collect();
        return Err(Problem::usage(what(), "there is no such node with memory")
            .next(format!("choose from: {}", if names.is_empty() { "none".into() } else { names.join(",") })));
    }
    let mut mask = [0_u64; NODES_MAX / BITS];
    mask[node as usize / BITS] |= 1 << (node as usize % BITS);
    // The kernel uses one bit less than it is given.
    let bits = NODES_MAX + 1;
    // SAFETY: the mask has the number of bits that the kernel reads, and lives until after the call.
    let result = unsafe { libc::syscall(libc::SYS_set_mempolicy, libc::MPOL_BIND, mask.as_ptr(), bits) };
    if result == 0 { Ok(()) } else { Err(Problem::failed(what(), io::Error::last_os_error())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_as_the_kernel_lists_them() {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots { proc: folder.path().into(), sys: folder.path().into() };
        assert!(with_memory(&roots).is_empty());
        std::fs::create_dir_all(folder.path().join("devices/system/node")).unwrap();
        for (text, nodes) in [("0\n", vec![0]), ("0-1,3\n", vec![0, 1, 3]), ("\n", vec![]), ("x,2,-,4-x", vec![2])] {
            std::fs::write(folder.path().join("devices/system/node/has_memory"), text).unwrap();
            assert_eq!(with_memory(&roots), nodes, "{text}");
        }
        std::fs::write(folder.path().join("devices/system/node/has_memory"), "0-4294967295").unwrap();
        assert!(with_memory(&roots).len() <= NODES_MAX + 1, "bounded");
    }

    #[test]
    fn memory_is_bound_or_the_node_is_named() {
        let problem = bind(1000).unwrap_err().to_string();
        assert!(problem.contains("node 1000") && problem.contains("choose from"), "{problem}");
        if let Some(node) = with_memory(&Roots::default()).first().copied() {
            let maps = std::thread::spawn(move || {
                bind(node).unwrap();
                std::fs::read_to_string("/proc/thread-self/numa_maps").unwrap()
            });
            assert!(maps.join().unwrap().contains(&format!(" bind:{node} ")));
        }
    }
}
