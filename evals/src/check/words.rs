//! The words that graders know, all in lower case, separated by white space.

/// Words that may stand around a value without changing it. Anything else beside it makes it unreadable; a task can add
/// words and phrases of its own.
pub(super) const HARMLESS: &str = "
    the a my its final answer result value total is are equals equal to of so thus therefore hence and it this that which
    gives gave here there computed calculated correct i we get got used using with from by tool calculator python output
    printed prints returned returns";

/// Words that name what a task asks for.
pub(super) const NAMES: &str = "answer result total value final";

/// What is said after an answer out of politeness. None of these can take it back.
pub(super) const COURTESY: &str = "
    let me know if you need want have would like anything something else any other further more questions question help
    assistance feel free to ask please thank thanks you your for so hope hopefully this that helps is are there i can
    could with happy glad be of assist am im ill welcome youre always here reach out";

/// A line of courtesy holds at least one of these.
pub(super) const KINDNESS: &str = "help helps assist assistance thank thanks welcome ask know";

/// Words that put a value in doubt from anywhere in the sentence that introduces it.
pub(super) const DOUBTS: &str = "
    maybe perhaps possibly probably presumably supposedly allegedly hypothetically perchance guess guesses guessed guessing
    think believe suppose assume assuming unsure uncertain unclear unverified unlikely likely doubt estimate estimated
    approximately approx roughly circa ca pretend claims claimed options candidates example wrong incorrect mistake
    mistaken mistakes mistakenly misread miscounted miscalculated erroneous correction false untrue invalid scratch ignore
    disregard retract withdraw withdrawn oops recheck reconsider undo revise forget joking joke kidding lie lied outdated
    obsolete void cancel apologies apologize strike opposite hmm hm nvm nevermind random arbitrary bogus fabricated
    placeholder nonsense";

/// Words that deny what the clause with the value says.
pub(super) const DENIALS: &str = "
    not never none neither nor cannot cant isnt wasnt arent wont dont doesnt didnt couldnt wouldnt shouldnt aint nothing
    nope hardly barely unable fails failed deny denies or either unless whether instead rather but however although though
    alternatively unlike hopefully error errors";

/// Words that change the value if it follows them, with at most [`POINTING`] words between.
pub(super) const MODIFIERS: &str = "
    no without except excluding besides beyond than least most over under about around near nearly almost if may might
    could would should seems appears minus plus negative twice thrice double triple half one two some any each part
    multiple fraction actually wait sorry until reverse inverse root square cube";

/// Words that only lead over to the value.
pub(super) const POINTING: &str = "
    the a an this that these those it its is are be to of following answer result value number amount total line one below
    next now here simply just exactly well way case means account circumstances what which like";

/// Words that are numbers or multiply one.
pub(super) const NUMERALS: &str = "
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
    eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred hundreds thousand thousands million
    millions billion billions dozen dozens half twice double triple";

/// Whether one of `lists` holds `word`, which is in lower case.
pub(super) fn listed(word: &str, lists: &[&str]) -> bool {
    lists.iter().any(|list| list.split_ascii_whitespace().any(|entry| entry == word))
}
