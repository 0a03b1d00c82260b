"""Writes text.json: pairs of texts with BLEU by sacrebleu, METEOR by NLTK and ROUGE by rouge-score, each 0 to 1.

Run from the repository's root:

    python3 -m venv /tmp/golden && /tmp/golden/bin/pip install 'sacrebleu==2.6.*' 'nltk==3.10.*' 'rouge-score==0.1.2'
    /tmp/golden/bin/python crates/leakage/tests/golden/text.py

METEOR takes the words that sacrebleu's tokenizer cuts, matches equal words and equal stems (Snowball's English stemmer)
and no synonyms: those take WordNet, which is data of its own. With alpha = 1/2 NLTK's mean is 2PR / (P + R).
"""

import importlib.metadata
import json
import pathlib

import sacrebleu
from nltk.stem.snowball import SnowballStemmer
from nltk.translate.meteor_score import single_meteor_score
from rouge_score import rouge_scorer
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a


class NoSynonyms:
    def synsets(self, word):
        return []


PAIRS = [
    ("wing color: black", "wing color: black"),
    ("wing color: black, bill shape: cone", "bill shape: cone, wing color: black"),
    ("wing color: grey", "wing color: black, bill shape: hooked"),
    ("a small bird", "an elephant"),
    ("black wings and striped heads", "black wing with a striped head"),
    ("black", "black"),
    ("black wing", "black bill"),
    ("the bird has has has has wings", "the bird has wings"),
    ("the the the the", "the cat the"),
    ("running runs ran runner", "run running runners"),
    ("concept1: 0.53, concept2: -1.25, concept3: 12,500", "concept1: 0.5, concept2: -1.25, concept3: 12,500"),
    ("weights 3-4, and 5.", "weights 3 - 4 and 5 ."),
    ('he said "yes" &amp; left; it\'s (not) [a] {test} ~ ^ `', "he said &quot;no&quot; & left, it's not a test"),
    ("A.B.C. ,,, ... !?", "A B C , . !"),
    ("50% of $20 = $10 @ home/work #1", "50% of 20 dollars at home"),
    ("UPPER Case Words", "upper case words"),
    ("hooked_seabird bill-shape", "hooked seabird bill shape"),
    ("line one\nline two", "line one line two"),
    ("hy-\nphen", "hyphen"),
    ("café naïve bird", "cafe naive bird"),
    ("ΑΒΓ grey Über", "αβγ grey über"),
    ("x < y > z", "x &lt; y &gt; z"),
    ("one two three four five six seven eight", "one two three four five six seven nine"),
    ("one two three four five six seven nine", "eight seven six five four three two one"),
    ("a b c d", "a b c d e f g h"),
    ("a b c d e f g h", "a b c d"),
    ("crown crested crests nested nests", "crown crest nest"),
    ("Please enter your features (concepts): white belly: 0.8", "The image shows a white belly: 0.9"),
    ("beak, beak, beak", "beak"),
    ("underparts yellow, breast yellow", "yellow breast, yellow underparts"),
    ("skies happily dying generously", "sky happy die generous"),
    ("1,000.5 and 1.000,5", "1,000.5 and 1.000,5"),
]


def main():
    rouge = rouge_scorer.RougeScorer(["rouge1", "rouge2", "rougeL"])
    stemmer = SnowballStemmer("english")
    cut = Tokenizer13a()
    cases = []
    for predicted, reference in PAIRS:
        words = [cut(predicted).split(), cut(reference).split()]
        found = rouge.score(reference, predicted)

        def meteor(alpha, words=words):
            return single_meteor_score(words[1], words[0], stemmer=stemmer, wordnet=NoSynonyms(), alpha=alpha)

        cases.append(
            {
                "predicted": predicted,
                "reference": reference,
                "tokens": " ".join(words[0]),
                "bleu": sacrebleu.sentence_bleu(predicted, [reference], use_effective_order=True).score / 100,
                "meteor": meteor(0.9),
                "meteor_eq9": meteor(0.5),
                "rouge_1": found["rouge1"].fmeasure,
                "rouge_2": found["rouge2"].fmeasure,
                "rouge_l": found["rougeL"].fmeasure,
            }
        )
    path = pathlib.Path(__file__).with_name("text.json")
    made_with = {name: importlib.metadata.version(name) for name in ("sacrebleu", "nltk", "rouge-score")}
    lines = ",\n".join(json.dumps(case, ensure_ascii=False, separators=(",", ":")) for case in cases)
    path.write_text(f'{{"made_with":{json.dumps(made_with)},"cases":[\n{lines}\n]}}\n')
    print(f"{len(cases)} cases, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
