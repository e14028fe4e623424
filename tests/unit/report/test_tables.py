from fashioniq.report.tables import label, print_table, rounded, text_table


def test_a_measure_has_the_same_label_and_decimals_everywhere():
    assert (
        rounded("MRR", 0.12345) == "0.123"
        and rounded("R@7", 12.345678) == "12.35"
        and rounded("turn", 3) == "3"
    )
    assert rounded("mean_rank", 1234.5) == "1,234.50" and rounded("BRI", None) == "–"
    assert (
        label("mean_rank") == "mean rank"
        and label("Hits@10") == "Hits@10"
        and label("something new") == "something new"
    )


def test_a_printed_table_keeps_names_in_brackets_and_its_last_row_apart(capsys):
    print_table(
        ["model", "mean"], [["[bold]a", "1.00"], ["b" * 150, "10.00"]], title="models", last=["all", "5.50"]
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].strip() == "models" and [
        line.split() for line in lines if line.startswith("[bold]a")
    ] == [["[bold]a", "1.00"]]
    assert ["b" * 150, "10.00"] in [line.split() for line in lines]
    assert lines[-1].split() == ["all", "5.50"] and not lines[-2].strip()


def test_a_plain_table_has_an_empty_line_before_each_section():
    table = text_table(["name", "n"], [[["a", "1"]], [["longer", "±20"]]])
    assert table == "name      n\n\na         1\n\nlonger  ±20\n"
