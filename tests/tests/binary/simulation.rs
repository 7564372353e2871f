//! The release binary contains no code of the simulation.
//!
//! Searches the bytes of the binary for mangled names; starts no process.

use seqsvr_test_support::process::release_binary;

#[test]
fn release_binary_has_no_simulation_symbols() {
    let bytes = std::fs::read(release_binary()).unwrap();
    // Names of functions in mangled form.
    let crates = bytes.windows(7).enumerate();
    let found = crates.filter(|(_, window)| *window == b"seqsvr_");
    let names: Vec<&[u8]> = found
        .map(|(at, _)| &bytes[at..bytes.len().min(at + 40)])
        .collect();
    let has = |symbol: &str| names.iter().any(|name| name.starts_with(symbol.as_bytes()));
    assert!(has("seqsvr_core7section"), "the test would show nothing");
    for symbol in [
        "seqsvr_core3sim",
        "seqsvr_raft3sim",
        "seqsvr_raft4node8sim_view",
        "seqsvr_raft3log6memory",
        "seqsvr_proto2os5files",
        "seqsvr_sim",
    ] {
        assert!(!has(symbol), "{symbol} is in the binary");
    }
}
