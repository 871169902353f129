//! Labs of real network namespaces. They need root: without it each test prints "skipped" and passes.

mod children;
mod frames;
mod lifecycle;
mod stale;
mod support;
mod traffic;
mod wire;
