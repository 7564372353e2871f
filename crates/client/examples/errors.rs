//! Kinds of errors, and when to retry.
//!
//! Run it with `cargo run -p seqsvr-client --example errors -- 127.0.0.1:7700`.

use std::time::Duration;

use seqsvr_client::{Client, ClientOptions, Error, ErrorKind};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let address = std::env::args()
        .nth(1)
        .or_else(|| std::env::var("SEQSVR_ADDRESS").ok());
    let address = address.unwrap_or_else(|| "127.0.0.1:7700".to_owned());
    // The client retries until this deadline where that helps.
    let options = ClientOptions::new([address]).with_deadline(Duration::from_secs(1));
    let client = Client::new(options)?;

    for namespace in ["default", "nowhere", "no spaces"] {
        match client.namespace(namespace).next(42).await {
            Ok(numbers) => println!("{namespace}: {}", numbers.first),
            Err(error) if error.kind() == ErrorKind::NamespaceNotFound => {
                println!("{namespace}: not found: {error}");
            }
            Err(error) if error.is_retryable() => {
                let pause = error.retry_after().unwrap_or(Duration::from_millis(50));
                println!("{namespace}: call again after {pause:?}: {error}");
            }
            Err(error) => println!("{namespace}: {:?}: {error}", error.kind()),
        }
    }
    Ok(())
}
