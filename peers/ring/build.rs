//! Builds the shim around Boost's queue, if it is asked for.

fn main() {
    println!("cargo:rerun-if-changed=boost/shim.cpp");
    if std::env::var_os("CARGO_FEATURE_BOOST").is_some() {
        cc::Build::new()
            .cpp(true)
            .std("c++17")
            .opt_level(3)
            .flag("-march=native")
            .define("NDEBUG", None)
            .file("boost/shim.cpp")
            .compile("boost_shim");
    }
}
