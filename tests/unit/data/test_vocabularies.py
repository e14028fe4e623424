import pytest

from fashioniq.data.attributes import find_attributes
from fashioniq.data.vocabularies import read_vocabulary, type_number
from fashioniq.files import UserError

ATTRIBUTES = """9
attribute_name  attribute_type
print                        1
floral print                 1
stripe                       1
stripes                      1
v-neck                       4
long sleeve                  4
long-sleeve                  4
sleeve                       4
shirt                        3
"""
CATEGORIES = "2\ncategory_name  category_type\nDress  3\nHenley         1\n"
CSV = "word,type,synonyms\nnavy blue,colour,navy|marine\nblue,Color,\nt-shirt,garment,tee;tee shirt\ndaisy,print\n"


@pytest.fixture
def deepfashion(tmp_path):
    (tmp_path / "list_attr_cloth.txt").write_text(ATTRIBUTES)
    (tmp_path / "list_category_cloth.txt").write_text(CATEGORIES)
    return read_vocabulary(tmp_path / "list_attr_cloth.txt")


@pytest.fixture
def own(tmp_path):
    (tmp_path / "words.csv").write_text("\ufeff" + CSV, encoding="utf-8")
    return read_vocabulary(tmp_path / "words.csv")


def found(text, vocabulary):
    return {word for words in find_attributes(text, vocabulary) for word in words}


def test_words_of_a_deepfashion_list_stand_in_the_list_of_their_type(deepfashion):
    assert find_attributes("Floral Print Henley dress with V-Neck", deepfashion) == [
        ["henley", "dress"], ["floral print", "print"], [], [], ["v-neck"], []
    ]  # fmt: skip


def test_words_inside_of_longer_ones_are_found_too_but_not_in_a_compound_with_hyphens(deepfashion):
    assert found("long sleeve", deepfashion) == {"long sleeve", "sleeve"}
    assert found("long-sleeve t-shirt", deepfashion) == {"long-sleeve"}
    assert found("a shirt-sleeve", deepfashion) == set()


@pytest.mark.parametrize(
    ("text", "words"),
    [("stripe", {"stripe"}), ("stripes", {"stripes"}), ("long-sleeve", {"long-sleeve"}), ("Long Sleeves", {"long sleeve", "sleeve"}),
     ("longsleeve", {"long sleeve"}), ("v neck", {"v-neck"}), ("VNecks", {"v-neck"}), ("dresses", {"dress"})],
)  # fmt: skip
def test_a_form_as_it_is_written_goes_before_plurals_and_other_hyphens(deepfashion, text, words):
    assert found(text, deepfashion) == words


def test_only_whole_words_of_a_list_are_found(deepfashion):
    assert found("printed dressy shirting", deepfashion) == set()


def test_without_a_list_of_garments_our_own_are_found(tmp_path):
    (tmp_path / "list_attr_cloth.txt").write_text(ATTRIBUTES)
    vocabulary = read_vocabulary(tmp_path / "list_attr_cloth.txt")
    assert find_attributes("Tee, sundresses and pants", vocabulary)[0] == ["t-shirt", "dress", "trousers"]
    assert "this package" in vocabulary.source


def test_a_csv_brings_words_synonyms_and_types(own):
    assert find_attributes("Marine tees with DAISIES", own) == [
        ["t-shirt"],
        ["navy blue", "daisy"],
        [],
        [],
        [],
        [],
    ]
    assert find_attributes("tee-shirt", own)[0] == ["t-shirt"]


def test_of_the_words_of_a_csv_the_longest_is_taken(own):
    assert found("navy blue", own) == {"navy blue"}
    assert found("blue, navy", own) == {"blue", "navy blue"}


def test_a_word_may_stand_in_two_lists(tmp_path):
    (tmp_path / "words.csv").write_text("word,type\njersey,garment\njersey,fabric\n")
    assert find_attributes("jersey", read_vocabulary(tmp_path / "words.csv")) == [
        ["jersey"],
        [],
        ["jersey"],
        [],
        [],
        [],
    ]


def test_forms_of_many_words_are_found(tmp_path):
    (tmp_path / "words.csv").write_text("word,type\nas light as a feather,style\n")
    assert found("as light as a feather", read_vocabulary(tmp_path / "words.csv")) == {
        "as light as a feather"
    }


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "line 1: expected the columns"),
        ("name,type\nred,colour\n", "line 1: expected the columns"),
        ("word,type\n", "no word below its header"),
        ("word,type\nred,colour\nlace,cloth\n", "line 3: expected a type, one of garment, texture"),
        ("word,type\n--,colour\n", "line 2: expected a word"),
        (
            "word,type,synonyms\nred,colour,scarlet\nruby,colour,Scarlet\n",
            "line 3: 'scarlet' already means 'red' in line 2",
        ),
        ("word,type\nred,colour\nred,colour\n", "line 3: 'red' already means 'red' in line 2"),
        ("word,type\nred,colour,scarlet,more\n", "line 2: expected as many fields"),
        ("word,type\nred\n", "line 2: expected as many fields"),
        ('word,type\n"red,colour\n', "line 2: "),
    ],
)
def test_malformed_csv_is_told_with_its_line(tmp_path, text, told):
    (tmp_path / "words.csv").write_text(text)
    with pytest.raises(UserError, match=f"words.csv.*{told}"):
        read_vocabulary(tmp_path / "words.csv")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("2\nattribute_name attribute_type\nprint 1\n", "expected 2 rows according to line 1, found 1"),
        (
            "1\nattribute_name attribute_type\nprint 6\n",
            "line 3: expected a new word and its type from 1 to 5, found 'print 6'",
        ),
        ("1\nattribute_name attribute_type\n\nprint\n", "line 4: expected a new word and its type"),
    ],
)
def test_malformed_lists_of_deepfashion_are_told_with_their_line(tmp_path, text, told):
    (tmp_path / "list_attr_cloth.txt").write_text(text)
    with pytest.raises(UserError, match=told):
        read_vocabulary(tmp_path / "list_attr_cloth.txt")


def test_a_file_that_is_missing_or_no_text_is_told(tmp_path):
    with pytest.raises(UserError, match="there is no vocabulary"):
        read_vocabulary(tmp_path / "words.csv")
    (tmp_path / "words.csv").write_bytes(b"word,type\ngr\xfcn,colour\n")
    with pytest.raises(UserError, match="not UTF-8"):
        read_vocabulary(tmp_path / "words.csv")


def test_colour_and_print_are_textures():
    assert [type_number(name) for name in ("garment", "Colour", "color", "print", " style ", "size")] == [
        0,
        1,
        1,
        1,
        5,
        None,
    ]


def test_the_released_words_are_read(shared):
    vocabulary = read_vocabulary(shared / "word_vectors" / "deepfashion_list_attr_cloth.txt")
    assert len(vocabulary.lists_of) == 1050
