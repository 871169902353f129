//! A peer that writes anything anywhere into the shared ring: nothing panics, hangs or leaves its bounds.

#[path = "support/hostile.rs"]
mod hostile;

#[test]
fn no_bytes_from_the_peer_do_harm() {
    for seed in 0..3000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let script: Vec<u8> = (0..random.usize(4..600)).map(|_| random.u8(..)).collect();
        let outcome = std::panic::catch_unwind(|| hostile::play(&script));
        assert!(outcome.is_ok(), "seed {seed}");
    }
}
