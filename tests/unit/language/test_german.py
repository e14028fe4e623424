"""German requests and what they say; the notation is in conftest.py."""

import pytest

from fashioniq.language.reader import Reader

from .conftest import GERMAN, in_short, lexicon_of, table

REQUESTS = table(
    """
ein schwarzes T-Shirt => schwarz, t-shirt
schwarzes Kleid mit langen Ärmeln => schwarz, kleid, langärmelig
langärmeliges Hemd => langärmelig, hemd
rotes Kleid => rot, kleid
Ärmel länger => sleeves+
längere Ärmel => sleeves+
Blümchenmuster => geblümt
dunkelrot => bordeaux
dunkelrotes Kleid => bordeaux, kleid
gruenes Hemd => grün, hemd
nicht gestreift => not gestreift
ohne Gürtel => not gürtel
kein Muster => einfarbig
keine Streifen und keine Punkte => not gestreift, not gepunktet
blau statt rot => blau, not rot
statt rot lieber blau => not rot, blau
lieber blau als rot => blau, not rot
länger als dieses mit Gürtel => length+, gürtel
länger als dieses Kleid mit Taschen => length+, kleid, taschen
kürzer als dieses mit langen Ärmeln => length-, langärmelig
länger als das rote => length+, not rot
weniger elegant und kurz => not elegant, kurz
weniger qwrtzig mit Gürtel => gürtel, ?qwrtzig
lange Ärmel statt kurze => langärmelig, not kurzärmelig
mehr rot als blau => rot, not blau
rot statt rot und blau => rot, not blau
zu eng und kurz => fit+, length+
anstelle von gestreift kariert => not gestreift, kariert
alles außer rot => not rot
bloß kein Gürtel => not gürtel
hätte gern einen roten Rock ohne Taschen => rot, rock, not taschen
nicht so lang => length-
weniger lang => length-
zu lang => length-
nicht lang genug => length+
kürzer => length-
dunkler => colour-
Farbe egal => any colour
die Farbe und die Länge sind egal => any colour, any length
egal welche Farbe => any colour
vergiss den Gürtel => any gürtel
von vorn => any *
das gleiche in rot => like, rot
wie dieses, nur in blau => like, blau
weinrot => bordeaux
himmelblau => hellblau
Maxikleid => maxi, kleid
Sommerkleid => kleid
Streifenshirt => gestreift, t-shirt
Baumwollhemd => baumwolle, hemd
gürtellos => not gürtel
kurze oder lange Ärmel => kurzärmelig|langärmelig
rot oder blau => blau|rot
Streifen mag ich nicht => not gestreift
das Muster gefällt mir nicht => not geblümt|gepunktet|gestreift|kariert
ein enger Rock => eng, rock
enger => fit-
weiter => fit+
ein breiterer Gürtel => gürtel
der Gürtel ist breiter und es ist länger => gürtel, length+
warum so kurz? => length+
die sind alle zu dunkel => colour+
das sind alles rote, ich will blau => not rot, blau
so lang wie dieses, aber rot => like, rot
gürtel mit längeren ärmeln => gürtel, sleeves+
länger mit taschen => length+, taschen
ein längeres blumenkleid => length+, geblümt, kleid
ein breiterer roter gürtel => rot, gürtel
der gürtel ist gut, ich will es länger => gürtel, length+
sie sind alle schön in rot => rot
die sind alle lang genug => lang
ihr habt nur zu kurze röcke => length+, rock
ich sehe nur schwarze kleider, zeig mir rote => not schwarz, kleid, rot
warum so viele blumen => not geblümt
ein weiter Rock => locker, rock
nein, ich meinte rot => rot
nicht schlecht, aber länger => length+
schwrazes Kleid => schwarz, kleid
gestreitf => gestreift
weder rot noch blau => not rot, not blau
kein rotes sondern ein blaues => not rot, blau
tausche den Gürtel gegen eine Schleife => not gürtel, schleife
von rot zu blau => not rot, blau
muss nicht rot sein => any rot
etwas länger und weniger elegant => length+, not elegant
nicht zu eng => fit+
nicht ohne Taschen => taschen
knielanges Kleid aus Leinen => knielang, kleid, leinen
zitronengelb => gelb
die Ärmel sind zu lang => sleeves-
Ärmel sollten länger sein => sleeves+
ohne Ärmel => ärmellos
mit Ärmeln => dreiviertelarm|kurzärmelig|langärmelig
nicht ärmellos => not ärmellos
ein Kleid für die Hochzeit => kleid, festlich
helleres Blau => hellblau
hellblaues Kleid => hellblau, kleid
dunkles Grün => grün
rotes oder blaues Kleid => blau|rot, kleid
Rot, Blau oder Grün => blau|grün|rot
rot und weiß gestreift => rot, weiß, gestreift
ein rot-weiß gestreiftes Hemd => rot, weiß, gestreift, hemd
nicht rot => not rot
es soll nicht rot sein => not rot
darf nicht gestreift sein => not gestreift
auf keinen Fall rot => not rot
lieber ohne Gürtel => not gürtel
Gürtel nein danke => not gürtel
bitte keinen Gürtel => not gürtel
kein Rot, lieber Blau => not rot, blau
Rot gefällt mir nicht, zeig mir Blau => not rot, blau
mit V-Ausschnitt => v-ausschnitt
V Ausschnitt => v-ausschnitt
Rundhals => rundhalsausschnitt
Knopfleiste statt Reißverschluss => knopfleiste, not reißverschluss
Reißverschluß => reißverschluss
Reissverschluss => reißverschluss
gebluemtes Kleid => geblümt, kleid
Punkte => gepunktet
gepunktete Bluse => gepunktet, bluse
Karomuster => kariert
kariertes Hemd => kariert, hemd
einfarbig => einfarbig
uni => einfarbig
bunt => bunt
nicht bunt => not bunt
gemustert => geblümt|gepunktet|gestreift|kariert
nicht gemustert => not geblümt|gepunktet|gestreift|kariert
Baumwolle => baumwolle
aus Baumwolle oder Leinen => baumwolle|leinen
kuerzer => length-
etwas lockerer => fit+
nicht so eng => fit+
weniger figurbetont => fit+
eleganter => elegant
sportlicher => sportlich
schicker => elegant
nicht elegant => not elegant
Kurzarmhemd => kurzärmelig, hemd
Langarmshirt => langärmelig, t-shirt
langarm => langärmelig
3/4-Ärmel => dreiviertelarm
mit 3/4 Ärmeln => dreiviertelarm
Midikleid in Bordeaux => midi, kleid, bordeaux
schwraz => schwarz
geblümmt => geblümt
gestreifft => gestreift
Gürtl => gürtel
langärmlig => langärmelig
kurze Ärmel => kurzärmelig
Größe egal => any size
Preis spielt keine Rolle => any price
die Farbe ist mir egal => any colour
Hauptsache nicht rot => not rot
wie dieses aber länger => like, length+
ähnlich in blau => like, blau
guten Tag, ich suche ein rotes Kleid => rot, kleid
keine Ahnung =>
xyzzy => ?xyzzy
ist in der und =>
nicht nur rot sondern auch blau => rot, blau
doch lieber rot => rot
länger als knielang => lang|maxi|midi
weder Gürtel noch Taschen => not gürtel, not taschen
kein Gürtel und keine Taschen => not gürtel, not taschen
ohne Gürtel und Taschen => not gürtel, not taschen
ohne Muster => einfarbig
lila statt rosa => lila, not rosa
marineblau => dunkelblau
navy => dunkelblau
Gürtel weg => not gürtel
lass den Gürtel weg => not gürtel
den Gürtel weglassen bitte => not gürtel
lass das Kleid rot => kleid, rot
lass die Spitze weg => not spitze
das ist schwarz, ich will aber grün => grün
eine andere Farbe als Rot => not rot
bitte keine kurzen Kleider => not kurz
kein Kleid aus Spitze => not spitze
kein Kleid mit Taschen, bitte einen Rock => not taschen, rock
kein Kleid bitte einen Rock => not kleid, rock
keine Kleider und keine Röcke => not kleid, not rock
statt eines roten Kleides ein schwarzer Rock => not rot, schwarz, rock
auf Spitze kann ich verzichten => not spitze
Gelb macht mich blass, lieber Blau => not gelb, blau
Schwarz habe ich schon => not schwarz
Rot habe ich schon gesagt => rot
nimm die mit den Punkten => gepunktet
Gibt es das mit langen Ärmeln? => langärmelig
das mit dem Gürtel gefällt mir => gürtel
das mit dem Gürtel ist mir egal => any gürtel
das mit dem Gürtel können Sie vergessen => any gürtel
ich habe nichts gegen Streifen => any gestreift
Streifen stören mich nicht => any gestreift
statt dem Gürtel eine Schleife => not gürtel, schleife
rot, nein warte, grün => grün
nicht schwarz, ich meine grau => not schwarz, grau
ohne Ärmel oder Gürtel => ärmellos, not gürtel
längere rote Ärmel => sleeves+, rot
kein roter Gürtel sondern ein schwarzer => gürtel, schwarz
nicht so sehr elegant wie lässig => not elegant, lässig
mehr oder weniger rot => rot
zeig mir weitere in rot => rot
ein weiteres rotes Kleid => rot, kleid
soll weiter sein => fit+
gibt es das in einer anderen Farbe? => other colour
andere Farben => other colour
falsche Farbe => other colour
die Farbe ist falsch => other colour
die Ärmel haben die falsche Länge => other sleeves
ein elegantes Kleid, rot oder grün => elegant, kleid, grün|rot
mit Gürtel, rot, grün oder schwarz => gürtel, grün|rot|schwarz
die Farbe gefällt mir nicht => other colour
nicht diese Farbe => other colour
mit großen Blumen => geblümt
große Größen =>
zu groß => fit-
ist mir viel zu klein => fit+
knielang oder länger => knielang|lang|maxi|midi
"""
)


@pytest.mark.parametrize(("phrase", "expected"), REQUESTS)
def test_a_request_in_german(phrase, expected, german):
    assert in_short(german.read(phrase)) == expected


def test_a_color_without_a_label_stands_for_all_its_shades():
    shades = GERMAN | {"colour": ["schwarz", "rot", "hellgrün", "hellblau", "dunkelblau"]}
    reader = Reader(lexicon_of(shades | {"sleeves": [*GERMAN["sleeves"], "spaghettiträger"]}, "de"))
    for text in ("blau", "ein blaues Kleid", "blau mit Ärmeln"):
        assert reader.read(text).wishes[0].labels == {"dunkelblau", "hellblau"}
    assert reader.read("grünes Kleid").wishes[0].labels == {"hellgrün"}
    assert reader.read("königsblau").wishes[0].labels == {"dunkelblau"}
    assert reader.read("mit Ärmeln").wishes[0].labels == {"dreiviertelarm", "kurzärmelig", "langärmelig"}
