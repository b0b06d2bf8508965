//! A job that submits others: `cargo run -p consign --example children`
#![allow(clippy::print_stdout, reason = "it is here to be looked at")]

use consign::{Consign, Context, Fail, JobRequest, on};
use std::time::Duration;

/// An album wants a thumbnail of each picture.
async fn album(pictures: Vec<String>, context: Context) -> Result<Vec<String>, Fail> {
    let mut children = Vec::new();
    for picture in &pictures {
        // Correlation and trace are carried on; an attempt that is repeated makes no second child.
        let child = JobRequest::new("thumbnail", picture).subject(picture.as_str());
        children.push(context.submit_child(child).await?.to_string());
    }
    // While a thumbnail is missing, the album waits without a slot. Then this handler runs again
    // from its beginning, and gets here with all of them.
    let thumbnails = context.wait_for_children().await?;
    println!("{} thumbnails are there", thumbnails.iter().filter(|it| it.is_completed()).count());
    Ok(children)
}

async fn thumbnail(picture: String, context: Context) -> Result<(), Fail> {
    let correlation = &context.job().correlation;
    println!("a thumbnail of {picture}, for {correlation}");
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let consign = Consign::in_memory()?;
    let runner = consign.runner().with(on("album", album)).with(on("thumbnail", thumbnail));
    let runner = runner.start().await?;

    let pictures = ["cat.png", "dog.png"];
    let request = JobRequest::new("album", &pictures).correlation("holidays");
    let album = consign.submit(request).await?.job_id;
    let album = consign.wait(album, Duration::from_secs(10)).await?;
    let children: Option<Vec<String>> = consign::result_of(&album)?;
    for child in children.unwrap_or_default() {
        let child = consign.wait(child, Duration::from_secs(10)).await?;
        let parent = child.parent_id.as_ref() == Some(&album.job_id);
        println!("{}: {}, its parent is the album: {parent}", child.job_id, child.status);
    }
    runner.stop(Duration::from_secs(10)).await;
    Ok(())
}
