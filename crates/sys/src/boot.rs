//! The kernel's command line, split as the kernel splits it (`next_arg()`, lib/cmdline.c, Linux 6.18).

/// One parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter<'a> {
    /// The text as it stands on the line, quotes included.
    pub text: &'a str,
    /// The name, with underscores for dashes: the kernel takes one for the other (`parameq()`, kernel/params.c).
    pub name: String,
    /// The value without its quotes; none for a parameter without `=`.
    pub value: Option<String>,
}

/// The parameters of the kernel: those before ` -- `, behind which are the arguments of init.
pub fn parameters(cmdline: &str) -> impl Iterator<Item = Parameter<'_>> {
    words(cmdline).take_while(|word| *word != "--").map(parameter)
}

/// Returns the number of words behind ` -- `.
pub fn arguments_of_init(cmdline: &str) -> usize {
    words(cmdline).skip_while(|word| *word != "--").skip(1).count()
}

/// Blanks within double quotes do not end a word.
fn words(cmdline: &str) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    let ends = move |letter: char| {
        quoted ^= letter == '"';
        letter.is_whitespace() && !quoted
    };
    cmdline.split(ends).filter(|word| !word.is_empty())
}

fn parameter(text: &str) -> Parameter<'_> {
    let plain = text.replace('"', "");
    let (name, value) = match plain.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (plain.as_str(), None),
    };
    Parameter { text, name: name.replace('-', "_"), value }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(cmdline: &str) -> Vec<(String, Option<String>)> {
        parameters(cmdline).map(|one| (one.name, one.value)).collect()
    }

    #[test]
    fn parameters_are_split_as_the_kernel_does() {
        let pair = |name: &str, value: Option<&str>| (name.to_owned(), value.map(str::to_owned));
        let expected = [
            pair("quiet", None),
            pair("rcutree.x_y", Some("a b")),
            pair("tsc", Some("reliable")),
            pair("isolcpus", Some("2-3")),
        ];
        assert_eq!(found("quiet rcutree.x-y=\"a b\"  \"tsc=reliable\" isolcpus=2-3"), expected);
        assert_eq!(parameters("a=\"b c\" d").map(|one| one.text).collect::<Vec<_>>(), ["a=\"b c\"", "d"]);
        assert!(found("").is_empty() && found("  \" ").len() <= 1);
    }

    #[test]
    fn what_is_behind_two_dashes_is_inits() {
        assert_eq!(found("quiet -- tsc=x pci=y").len(), 1);
        assert_eq!((arguments_of_init("quiet -- tsc=x \"a b\""), arguments_of_init("quiet")), (2, 0));
    }
}
