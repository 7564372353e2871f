//! Hidden numbers: vectors, and that they are a permutation.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::HashSet;

use proptest::prelude::*;
use seqsvr_ids::opaque_numbers::{OpaqueNumbers, OpaqueWidth};

const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F";
const JS_MAX: u64 = (1 << 53) - 1;

fn opaque(name: &str, width: OpaqueWidth) -> OpaqueNumbers {
    OpaqueNumbers::new(KEY, name, width).unwrap()
}

/// The expected numbers are those of another implementation of SP 800-38G, checked by the samples
/// of NIST, on AES of OpenSSL.
#[test]
fn a4_hidden_numbers_are_those_of_the_standard() {
    use OpaqueWidth::{Bits53, Bits64};
    for (name, width, number, hidden) in [
        ("default", Bits64, 0, 7_063_215_893_567_239_464),
        ("default", Bits64, 1, 16_119_681_565_551_891_690),
        ("default", Bits64, 2, 13_932_748_194_537_813_704),
        ("orders", Bits64, 1, 12_990_771_098_594_590_907),
        ("default", Bits64, u64::MAX, 3_068_421_839_377_171_249),
        (
            "default",
            Bits64,
            225_912_364_091_068_416,
            16_060_665_055_234_094_613,
        ),
        ("default", Bits53, 1, 8_133_422_419_398_806),
        ("default", Bits53, JS_MAX, 5_589_562_461_315_202),
    ] {
        let opaque = opaque(name, width);
        assert_eq!(opaque.hide(number), Ok(hidden), "{name} {width:?} {number}");
        assert_eq!(opaque.show(hidden), Ok(number), "{name} {width:?} {hidden}");
    }
}

/// Two competitors subtract the ids of two days at noon: neither order nor volume is left.
#[test]
fn a4_e1_hidden_numbers_tell_neither_order_nor_volume() {
    let opaque = opaque("orders", OpaqueWidth::Bits64);
    let hidden: Vec<_> = (1..=1_000).map(|n| opaque.hide(n).unwrap()).collect();
    let rises = hidden.windows(2).filter(|pair| pair[0] < pair[1]).count();
    assert!((400..600).contains(&rises), "{rises} of 999 rise");
    let distances: HashSet<_> = hidden.windows(2).map(|p| p[1].wrapping_sub(p[0])).collect();
    assert_eq!(distances.len(), 999);
}

#[test]
fn a4_numbers_out_of_range_and_malformed_keys_are_rejected() {
    let js = opaque("default", OpaqueWidth::Bits53);
    for number in [JS_MAX + 1, u64::MAX] {
        let error = js.hide(number).unwrap_err().to_string();
        assert!(error.contains("2^53 - 1"), "{error}");
        assert!(js.show(number).is_err());
    }
    let short = &KEY[1..];
    let long = format!("{KEY}00");
    let not_hex = format!("{}x", &KEY[1..]);
    let sign = format!("+{}", &KEY[1..]);
    let wide = format!("{}ä", &KEY[2..]);
    for text in ["", short, &long, &not_hex, &sign, &wide] {
        let error = OpaqueNumbers::new(text, "default", OpaqueWidth::Bits64);
        let error = error.err().unwrap().to_string();
        assert!(error.contains("64 hexadecimal digits"), "{error}");
        assert!(text.is_empty() || !error.contains(text), "{error}");
    }
}

proptest! {
    #[test]
    fn a4_show_is_the_inverse_of_hide(key: [u8; 32], name: String, number: u64, is_js: bool) {
        let key: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        let (width, number) = match is_js {
            true => (OpaqueWidth::Bits53, number & JS_MAX),
            false => (OpaqueWidth::Bits64, number),
        };
        let opaque = OpaqueNumbers::new(&key, &name, width).unwrap();
        let hidden = opaque.hide(number).unwrap();
        prop_assert_eq!(opaque.show(hidden), Ok(number));
        // A permutation: what shows as a number is hidden as it too.
        let shown = opaque.show(number).unwrap();
        prop_assert_eq!(opaque.hide(shown), Ok(number));
        prop_assert!(hidden.leading_zeros() >= 64 - width as u32);
    }

    #[test]
    fn a4_names_and_widths_have_nothing_in_common(a: u64, b: u64) {
        let (a, b) = (a & JS_MAX, b & JS_MAX);
        let [x, y] = ["x", "y"].map(|name| opaque(name, OpaqueWidth::Bits53));
        prop_assert_ne!(x.hide(a), y.hide(a));
        prop_assert!(a == b || x.hide(a) != x.hide(b));
    }
}
