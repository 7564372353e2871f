//! Memory that a process needs for each touched key beyond its base, as the operating system
//! reports it.
//!
//! To see the values: `cargo test -p seqsvr-tests --test binary memory -- --nocapture`.

use std::time::Duration;

use seqsvr_client::{Client, ClientOptions, Key, NextItem};

use crate::dev::DevServer;

/// Items of one call.
const BATCH_ITEMS: u64 = 10_000;

/// Returns the resident bytes of a process.
fn resident_bytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap();
    line.split_whitespace()
        .nth(1)
        .unwrap()
        .parse::<u64>()
        .unwrap()
        * 1024
}

async fn touch_keys(client: &Client, namespace: &str, keys: impl Iterator<Item = Key>) {
    let items: Vec<NextItem> = keys.map(NextItem::new).collect();
    for answer in client.namespace(namespace).next_batch(&items).await {
        answer.unwrap();
    }
}

/// Spreads an index over 64 bits: the finalizer of SplitMix64.
fn spread_bits(i: u64) -> u64 {
    let mut z = i.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[tokio::test]
async fn touched_keys_stay_within_memory_per_key() {
    const UIDS: u64 = 10_000_000;
    const IDS: u64 = 1_000_000;
    let dev = DevServer::start();
    let options = ClientOptions::new([format!("127.0.0.1:{}", dev.port)])
        .with_deadline(Duration::from_secs(30));
    let client = Client::new(options).unwrap();
    // Buffers of this traffic belong to the base, and so do the empty sections of `keys`.
    let far = 4_000_000_000;
    for _ in 0..20 {
        touch_keys(&client, "default", (far..far + BATCH_ITEMS).map(Key::Uid)).await;
    }
    for i in 0..2 {
        touch_keys(
            &client,
            "keys",
            (i * BATCH_ITEMS..(i + 1) * BATCH_ITEMS).map(Key::Uid),
        )
        .await;
    }

    let base = resident_bytes(dev.pid());
    for batch in 0..UIDS / BATCH_ITEMS {
        touch_keys(
            &client,
            "default",
            (batch * BATCH_ITEMS..(batch + 1) * BATCH_ITEMS).map(Key::Uid),
        )
        .await;
    }
    let dense = resident_bytes(dev.pid()) - base;
    let each = dense as f64 / UIDS as f64;
    println!("{UIDS} neighboring uids: {dense} bytes beyond the base of {base}, {each:.2} each");

    let before = resident_bytes(dev.pid());
    for batch in 0..IDS / BATCH_ITEMS {
        touch_keys(
            &client,
            "keys",
            (batch * BATCH_ITEMS..(batch + 1) * BATCH_ITEMS).map(|i| Key::Uid(spread_bits(i))),
        )
        .await;
    }
    let keyed = resident_bytes(dev.pid()) - before;
    let keyed_each = keyed as f64 / IDS as f64;
    println!("{IDS} random 64-bit ids in `keys`: {keyed} bytes, {keyed_each:.2} each");

    let rejection = client
        .namespace("default")
        .next(Key::Uid(spread_bits(1)))
        .await
        .unwrap_err();
    println!("the same id in `default`: {rejection}");
    assert!(
        rejection.message().contains("max_uid") && rejection.message().contains("keyed"),
        "{rejection}"
    );
    assert!(each < 5.0, "{each:.2} bytes a uid");
    assert!(keyed_each < 64.0, "{keyed_each:.2} bytes an id");
}
