#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seqsvr_net::fuzz::entries(data));
