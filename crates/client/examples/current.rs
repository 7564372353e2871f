//! Reads the last number of a key, without taking one.
//!
//! Run it with `cargo run -p seqsvr-client --example current -- 127.0.0.1:7700`.

use seqsvr_client::{Client, ClientOptions, CurrentKind, Error};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let address = std::env::args()
        .nth(1)
        .or_else(|| std::env::var("SEQSVR_ADDRESS").ok());
    let address = address.unwrap_or_else(|| "127.0.0.1:7700".to_owned());
    let client = Client::new(ClientOptions::new([address]))?;

    let current = client.default_namespace().current("alice").await?;
    match current.kind {
        CurrentKind::Exact => println!("the last number is {}", current.value),
        CurrentKind::Never => println!("no number was given out"),
        CurrentKind::AtMost => println!("the last number is at most {}", current.value),
    }
    Ok(())
}
