//! Raises a sequence: every later number is above a value.
//!
//! Run it with `cargo run -p seqsvr-client --example raise_to -- 127.0.0.1:7700`.

use seqsvr_client::{Client, ClientOptions, Error};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let address = std::env::args()
        .nth(1)
        .or_else(|| std::env::var("SEQSVR_ADDRESS").ok());
    let address = address.unwrap_or_else(|| "127.0.0.1:7700".to_owned());
    let client = Client::new(ClientOptions::new([address]))?;
    let numbers = client.default_namespace();

    let raised = numbers.raise_to("alice", 1_000).await?;
    let next = numbers.next("alice").await?;
    println!("raised to {}, next {}", raised.value, next.first);

    // A large jump may be a mistake, so the namespace bounds it. `force` skips the bound.
    let far = next.last + 2_000_000_000;
    if let Err(error) = numbers.raise_to("alice", far).await {
        println!("rejected: {error}");
    }
    let raised = numbers.raise_to("alice", far).force(true).await?;
    println!("raised to {}", raised.value);
    Ok(())
}
