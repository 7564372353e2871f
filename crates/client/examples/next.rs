//! Takes the next number of a key, and several numbers at once.
//!
//! Run it with `cargo run -p seqsvr-client --example next -- 127.0.0.1:7700`.

use seqsvr_client::{Client, ClientOptions, Error};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let address = std::env::args()
        .nth(1)
        .or_else(|| std::env::var("SEQSVR_ADDRESS").ok());
    let address = address.unwrap_or_else(|| "127.0.0.1:7700".to_owned());
    let client = Client::new(ClientOptions::new([address]))?;
    let numbers = client.default_namespace();

    println!("next {}", numbers.next("alice").await?.first);

    let five = numbers.next_n("alice", 5).await?;
    println!("next {} to {}", five.first, five.last);
    Ok(())
}
