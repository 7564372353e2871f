//! Takes numbers of many keys in one call. Each item has a result of its own.
//!
//! Run it with `cargo run -p seqsvr-client --example batch -- 127.0.0.1:7700`.

use seqsvr_client::{Client, ClientOptions, Error, Key, NextItem};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let address = std::env::args()
        .nth(1)
        .or_else(|| std::env::var("SEQSVR_ADDRESS").ok());
    let address = address.unwrap_or_else(|| "127.0.0.1:7700".to_owned());
    let client = Client::new(ClientOptions::new([address]))?;

    let keys = ["alice/a", "alice/b", "alice/c"].map(Key::from);
    let items = [
        NextItem::new(keys[0].clone()),
        NextItem::new(keys[1].clone()).with_count(5),
        NextItem::new(keys[2].clone()),
    ];
    let results = client.default_namespace().next_batch(&items).await;
    for (key, result) in keys.iter().zip(results) {
        match result {
            Ok(numbers) => println!("{key}: {} to {}", numbers.first, numbers.last),
            Err(error) => println!("{key}: {error}"),
        }
    }
    Ok(())
}
