"""Seeded random texts for the tokenizer tests: each kind of text that tokenizers get wrong, and mixtures of them."""

import random

CJK = "的一是不了人我在有他这为之大来以个中上们到说国和地也子时道出而要于就下得可你年生自会那后能对着事其里所去行过家十用发天如然作方成者多日都三小军二无同么经法当起与好看学进种将还分此心前面又定见只主没公从알고리즘한국어입니다ひらがなカタカナー々〆ヶ㐀龥鿿"
EMOJI = ["😀", "👍🏽", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪", "🇯🇵", "❤️", "☺", "1️⃣", "🧑🏿‍💻", "🫠", "©️", "™"]
COMBINING = ["e\u0301", "a\u0308", "n\u0303", "\u0301", "o\u0302\u0323", "क्षि", "தமிழ்", "ก็", "ﷺ", "Z\u0351\u036b\u0343", "\u0958", "\u1e9b\u0323"]
SPACES = [" ", "  ", "   ", "\t", "\n", "\r\n", "\r", "\n\n", " \n ", "\u00a0", "\u2003", "\u3000", "\u2028", "\u0085", "\u200b", "\ufeff", "\v", "\f", "\u180e", "\u1680", "\u202f"]
PUNCTUATION = list("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~") + ["…", "—", "“", "”", "。", "、", "！", "？", "«", "»", "¿", "§", "€", "£", "±", "×", "→", "∑", "≠", "°", "¶", "'s", "'RE", "'ll", "'\u017f", "’s"]
DIGITS = ["0", "7", "42", "123", "1234", "1,234.56", "007", "٣٤٥", "一二三", "Ⅷ", "½", "²", "①", "१२३", "𝟘𝟙", "1e-6", "0xFF"]
WORDS = ("the of and to in is you that it he was for on are as with his they I at be this have from or one had by word but "
         "not what all were we when your can said there use an each which she do how their if will up other about out many "
         "then them these so some her would make like him into time has look two more write go see number no way could "
         "people my than first water been call who oil its now find long down day did get come made may part "
         "Über naïve façade Straße Ελληνικά Русский язык עברית العربية हिन्दी ไทย Việt Nam İstanbul ǅungla ŉ ſtrange K "
         "don't we'll I'm they've DON'T HTTPServer camelCase snake_case kebab-case").split()
CODE = ["def f(x):\n    return x**2\n", "if (a && b) { return c->d; }\n", "std::vector<int> v{1, 2, 3};\n", "SELECT * FROM t WHERE a='b';",
        "<div class=\"x\">y</div>", "\tfor i in range(10):\n\t\tprint(f\"{i:>3}\")\r\n", "{\"key\": [1.5, null, true]}", "#include <stdio.h>\n",
        "https://example.com/a?b=c&d=%20#e", "$HOME/.config/*.json", "\\frac{1}{2}\\alpha", "    ", "//----\n", "/* x */", "a=>b;", "@@ -1,2 +3,4 @@"]


def random_code_points(rng, count):
    out = []
    while len(out) < count:
        limit = rng.choice([0x80, 0x250, 0x800, 0x3000, 0x10000, 0x20000, 0x110000])
        point = rng.randrange(limit)
        if not 0xD800 <= point <= 0xDFFF:
            out.append(chr(point))
    return "".join(out)


def one_part(rng, specials):
    kind = rng.randrange(11)
    if kind == 0:
        return "".join(rng.choice(CJK) for _ in range(rng.randint(1, 12)))
    if kind == 1:
        return rng.choice(EMOJI)
    if kind == 2:
        return rng.choice(COMBINING)
    if kind == 3:
        return "".join(rng.choice(SPACES) for _ in range(rng.randint(1, 5)))
    if kind == 4:
        return "".join(rng.choice(PUNCTUATION) for _ in range(rng.randint(1, 4)))
    if kind == 5:
        return rng.choice(DIGITS)
    if kind == 6:
        return rng.choice(CODE)
    if kind == 7 and specials:
        text = rng.choice(specials)
        return text if rng.random() < 0.8 else text[: rng.randint(1, len(text))]
    if kind == 8:
        return random_code_points(rng, rng.randint(1, 6))
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(1, 8))) + rng.choice(["", " ", ". "])


def long_text(rng, specials):
    kind = rng.randrange(5)
    length = rng.randint(2000, 20000)
    if kind == 0:
        return rng.choice([" ", "a", "1", "\n", "!", "的", "\u0301", "é", "👍", "ab", " \n", "\r\n", "1a"]) * length
    if kind == 1:
        return "".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(length))
    if kind == 2:
        return random_code_points(rng, length // 4)
    return "".join(one_part(rng, specials) for _ in range(length // 10))


def texts(seed, count, specials):
    """`count` texts, the same for the same arguments: short mixtures, and one in a hundred of thousands of characters."""
    rng = random.Random(seed)
    out = ["", " ", "\n", "a", " a", "a ", "Hello, world!", "é", "e\u0301"] + list(specials)
    while len(out) < count:
        if rng.randrange(100) == 0:
            out.append(long_text(rng, specials))
        else:
            out.append("".join(one_part(rng, specials) for _ in range(rng.choice([1, 2, 3, 5, 8, 13]))))
    return out[:count]
