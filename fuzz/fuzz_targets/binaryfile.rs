//! A BinaryFILE from a stranger: the messages, written again, are the file up to its end.

#![no_main]

use sidestep_market::capture::{BinaryFile, BinaryFileWriter, End};
use sidestep_market::itch::Message;

libfuzzer_sys::fuzz_target!(|file: &[u8]| {
    let mut reader = BinaryFile::new(file);
    let mut writer = BinaryFileWriter::new(Vec::new());
    let is_truncated = loop {
        match reader.try_next() {
            Ok(Some(message)) => {
                let _ = Message::parse(message).map(|message| (message.locate(), message.timestamp_ns()));
                writer.message(message).expect("it was in a file");
            }
            Ok(None) => break false,
            Err(_) => break true,
        }
    };
    assert_eq!(reader.end().is_none(), is_truncated);
    let whole = writer.finish().expect("memory");
    let messages = &whole[..whole.len() - 2];
    assert_eq!(file[..messages.len()], *messages);
    assert_eq!(reader.end() == Some(End::OfFile), messages.len() == file.len());
});
