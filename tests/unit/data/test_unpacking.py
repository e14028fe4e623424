import io
import stat
import zipfile

import pytest

from fashioniq.files import UserError
from fashioniq.prepare import archives as unpacking
from fashioniq.prepare.archives import is_archive, is_safe, pictures_in, unpack

OUTSIDE = ["../out.jpg", "/tmp/fashioniq-out.jpg", "in/../../out.jpg", "..\\out.jpg", "\\out.jpg"]


def pack(path, members):
    """A zip archive of pairs of name and content; the same name may come twice."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return path


@pytest.fixture
def folder(tmp_path):
    """Where to unpack to: a folder in an otherwise empty one."""
    (tmp_path / "around" / "into").mkdir(parents=True)
    return tmp_path / "around" / "into"


def files(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refused(match, path, folder, most=1e6):
    with pytest.raises(UserError, match=match) as caught:
        unpack(path, folder, most)
    assert "\n" not in str(caught.value)


def test_pictures_are_unpacked_in_their_folders_and_nothing_else_is(tmp_path, folder):
    pictures = [("1.jpg", b"one"), ("./red/2.PNG", b"two"), ("red/deep/3.webp", b"3" * 3_000_000)]
    others = [
        ("notes.txt", b"x"),
        ("red/._2.png", b"x"),
        ("__MACOSX/1.jpg", b"x"),
        (".git/1.jpg", b"x"),
        ("4.svg", b"x"),
    ]
    assert unpack(pack(tmp_path / "a.zip", pictures + others), folder, 1e7) == {}
    assert files(folder) == {"1.jpg": b"one", "red/2.PNG": b"two", "red/deep/3.webp": b"3" * 3_000_000}


def test_pictures_are_found_by_their_ids_and_unpacked_one_by_one(tmp_path, folder):
    members = [
        ("red/1.jpg", b"one"),
        ("1.png", b"other"),
        ("2.v2.jpg", b"two"),
        ("../3.jpg", b"x"),
        ("4.txt", b"x"),
    ]
    path = pack(tmp_path / "a.zip", members)
    assert pictures_in(path) == {"1": "red/1.jpg", "2.v2": "2.v2.jpg"}
    assert unpack(path, folder, 1e6, only={"red/1.jpg"}) == {}
    assert files(folder) == {"red/1.jpg": b"one"}


def test_no_member_leaves_the_folder(tmp_path, folder):
    skipped = unpack(
        pack(
            tmp_path / "a.zip",
            [*((name, b"x") for name in OUTSIDE), ("C:\\out.jpg", b"x"), ("1.jpg", b"one")],
        ),
        folder,
        1e6,
    )
    assert files(folder.parent) == {"into/1.jpg": b"one"}
    assert [skipped[name] for name in OUTSIDE] == ["its path is outside the folder"] * len(OUTSIDE) and len(
        skipped
    ) == len(OUTSIDE) + 1


def test_links_of_a_zip_are_skipped(tmp_path, folder):
    link = zipfile.ZipInfo("1.jpg")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(link, "../secret.jpg")
    assert unpack(tmp_path / "a.zip", folder, 1e6) == {"1.jpg": "a link or device, not a plain file"}
    assert files(folder) == {}


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_of_members_of_one_name_the_first_is_taken(tmp_path, folder):
    members = [
        ("1.jpg", b"one"),
        ("1.jpg", b"two"),
        ("1.jpg/2.jpg", b"in a file"),
        ("3.jpg/4.jpg", b"four"),
        ("3.jpg", b"is a folder"),
    ]
    assert set(unpack(pack(tmp_path / "a.zip", members), folder, 1e6)) == {"1.jpg", "1.jpg/2.jpg", "3.jpg"}
    assert files(folder) == {"1.jpg": b"one", "3.jpg/4.jpg": b"four"}


def test_names_that_no_file_can_have_are_skipped(tmp_path, folder):
    names = ["a\x01.jpg", "a" * 300 + ".jpg", 'a"b.jpg', "a/" * 1500 + "b.jpg"]
    assert set(unpack(pack(tmp_path / "a.zip", [(name, b"x") for name in names]), folder, 1e6)) == {
        name[:200] for name in names
    }
    assert files(folder) == {}


def test_more_than_the_limit_is_not_unpacked(tmp_path, folder):
    path = pack(tmp_path / "a.zip", [(f"{number}.jpg", bytes(600_000)) for number in range(5)])
    refused("unpacks to more than 0.002 GB: unpack it and give the folder$", path, folder, 2e6)
    assert sum(map(len, files(folder).values())) <= 3e6
    unpack(path, folder.parent, 4e6)


def test_a_zip_that_claims_little_and_holds_much_is_refused(tmp_path, folder):
    path = pack(tmp_path / "a.zip", [("1.jpg", bytes(30_000_000))])
    content = path.read_bytes()
    assert (
        content.count((30_000_000).to_bytes(4, "little")) == 2
    )  # in front of the member, and in the directory
    path.write_bytes(content.replace((30_000_000).to_bytes(4, "little"), (10).to_bytes(4, "little")))
    refused("is damaged", path, folder)
    assert sum(map(len, files(folder).values())) <= 10


def test_more_members_than_the_limit_are_refused(tmp_path, folder, monkeypatch):
    monkeypatch.setattr(unpacking, "MOST_MEMBERS", 3)
    refused(
        "more than 3 members",
        pack(tmp_path / "a.zip", [(f"{number}.txt", b"") for number in range(4)]),
        folder,
    )


def test_an_archive_cut_short_anywhere_is_refused(tmp_path, folder):
    path = pack(tmp_path / "a.zip", [(f"{number}.jpg", bytes(range(256)) * 2) for number in range(20)])
    content = path.read_bytes()
    for number, size in enumerate(
        [0, 1, len(content) // 3, len(content) // 2, 10 * 1024, len(content) - 30, len(content) - 1]
    ):
        path.write_bytes(content[: min(size, len(content) - 1)])
        (folder / str(number)).mkdir()
        refused("is damaged", path, folder / str(number))


def test_a_damaged_archive_is_refused(tmp_path, folder):
    path = pack(tmp_path / "a.zip", [("1.jpg", bytes(range(256)) * 40)])
    content = bytearray(path.read_bytes())
    content[100] ^= 255
    path.write_bytes(content)
    refused("is damaged", path, folder)


def test_what_is_no_archive_is_refused(tmp_path, folder):
    (tmp_path / "a.zip").write_bytes(b"<html>not found</html>" * 100)
    refused("is damaged", tmp_path / "a.zip", folder)


@pytest.mark.parametrize("name", ["a.tar", "a.TAR.GZ", "a.tgz", "a.tar.xz"])
def test_a_tar_is_refused_with_what_to_do(tmp_path, name):
    with pytest.raises(UserError, match=r"tar archive .*: unpack it and give the folder"):
        is_archive(tmp_path / name)
    assert is_archive(tmp_path / "a.ZIP") and not is_archive(tmp_path / "tar.csv")


def test_an_encrypted_zip_is_refused(tmp_path, folder):
    path = pack(tmp_path / "a.zip", [("1.jpg", b"x")])
    content = bytearray(path.read_bytes())
    content[6] |= 1  # the flag of the member
    content[content.index(b"PK\x01\x02") + 8] |= 1  # and of the directory
    path.write_bytes(content)
    refused("is encrypted", path, folder)


def test_a_zip_whose_blocks_could_unpack_to_anything_is_refused(tmp_path, folder):
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("1.jpg", bytes(1000))
    refused("uses an unsupported compression method", tmp_path / "a.zip", folder)


def test_a_full_disk_is_told_as_such(tmp_path, folder, monkeypatch):
    class Full(io.BytesIO):
        def flush(self):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(unpacking, "open", lambda path, mode: Full(), raising=False)
    refused("no space left", pack(tmp_path / "a.zip", [("1.jpg", b"x")]), folder)


@pytest.mark.parametrize(
    "name", ["", ".", "..", ".x", "a/b", "a\\b", "a:b", "a\n", "\udcff", "é" * 101, "__MACOSX"]
)
def test_unsafe_names(name):
    assert not is_safe(name) and is_safe("é 1-2_3.jpg")
