//! The result for scripts, inside of the page.

use crate::json;
use crate::schema::{Distribution, Document};

/// Most bytes of the result that the page carries: with the charts it stays below 1 MB, which mail lets through.
const DATA_LIMIT_BYTES: usize = 384 << 10;

/// The data block and a note for the reader.
pub(super) fn block(document: &Document) -> String {
    let data = json::to_compact_string(&brief(document)).replace('<', "\\u003c");
    match data.len() <= DATA_LIMIT_BYTES {
        true => format!(
            "<footer>\n<p>This page loads nothing. The JSON block <code>result</code> in its source holds its figures, without histograms, \
             slices and single outliers, which the result file has.</p>\n</footer>\n<script type=\"application/json\" id=\"result\">\n{data}</script>\n"
        ),
        false => "<footer>\n<p>This page loads nothing. Its data would make it too large: the result file has it.</p>\n</footer>\n".into(),
    }
}

/// The document without what only a program reads: histograms show every sample of a host, and are long.
fn brief(document: &Document) -> Document {
    let mut document = document.clone();
    let clear = |d: &mut Distribution| d.histogram.clear();
    for row in &mut document.results {
        row.blocks.clear();
        clear(&mut row.distribution);
        if let Some(causes) = &mut row.causes {
            causes.outliers.clear();
        }
        for stage in row.stages.iter_mut().flat_map(|stages| &mut stages.stages) {
            clear(&mut stage.distribution);
        }
        if let Some(rate) = &mut row.rate {
            clear(&mut rate.from_actual_send);
            clear(&mut rate.send_lateness);
        }
    }
    document
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn the_block_is_the_document_without_what_is_long() {
        for document in [sample::document(), sample::hostile()] {
            let block = block(&document);
            let (_, after) = block.split_once("id=\"result\">").unwrap();
            let (data, _) = after.split_once("</script>").unwrap();
            assert!(json::parse(data.as_bytes(), "page").unwrap() == brief(&document));
            assert!(!data.contains("HISTF"));
        }
    }

    #[test]
    fn data_that_is_too_large_is_left_to_the_result_file() {
        let mut document = sample::document();
        document.results = document.results.iter().cycle().take(3_000).cloned().collect();
        let block = block(&document);
        assert!(block.contains("too large") && !block.contains("<script"));
    }
}
