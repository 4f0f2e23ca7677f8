-- The reads of LDBC SNB Interactive for DuckDB, over the tables of tables.sql.

-- name: is1
SELECT p.firstName, p.lastName, p.birthday, p.locationIP, p.browserUsed, p.city, p.gender, p.creationDate
FROM person p WHERE p.id = $personId;

-- name: is2
WITH RECURSIVE recent AS (
    SELECT id, coalesce(content, imageFile) AS content, creationDate, reply_of, creator
    FROM message WHERE creator = $personId ORDER BY creationDate DESC, id DESC LIMIT 10
), thread(start, root, reply_of, creator) AS (
    SELECT id, id, reply_of, creator FROM recent
    UNION ALL SELECT t.start, m.id, m.reply_of, m.creator FROM thread t JOIN message m ON m.id = t.reply_of
)
SELECT r.id, r.content, r.creationDate, t.root, p.id, p.firstName, p.lastName
FROM recent r JOIN thread t ON t.start = r.id AND t.reply_of IS NULL JOIN person p ON p.id = t.creator
ORDER BY r.creationDate DESC, r.id DESC;

-- name: is3
SELECT p.id, p.firstName, p.lastName, k.creationDate
FROM knows k JOIN person p ON p.id = k.person2 WHERE k.person1 = $personId ORDER BY k.creationDate DESC, p.id;

-- name: is4
SELECT creationDate, coalesce(content, imageFile) FROM message WHERE id = $messageId;

-- name: is5
SELECT p.id, p.firstName, p.lastName FROM message m JOIN person p ON p.id = m.creator WHERE m.id = $messageId;

-- name: is6
WITH RECURSIVE thread(id, reply_of, forum) AS (
    SELECT id, reply_of, forum FROM message WHERE id = $messageId
    UNION ALL SELECT m.id, m.reply_of, m.forum FROM thread t JOIN message m ON m.id = t.reply_of
)
SELECT f.id, f.title, p.id, p.firstName, p.lastName
FROM thread t JOIN forum f ON f.id = t.forum JOIN person p ON p.id = f.moderator;

-- name: is7
SELECT r.id, coalesce(r.content, r.imageFile), r.creationDate, p.id, p.firstName, p.lastName,
    EXISTS (SELECT 1 FROM knows k WHERE k.person1 = m.creator AND k.person2 = p.id)
FROM message m JOIN message r ON r.reply_of = m.id JOIN person p ON p.id = r.creator
WHERE m.id = $messageId ORDER BY r.creationDate DESC, p.id, r.id;

-- name: ic1
WITH one AS (SELECT person2 AS id FROM knows WHERE person1 = $personId),
two AS (SELECT DISTINCT k.person2 AS id FROM knows k JOIN one ON k.person1 = one.id),
three AS (SELECT DISTINCT k.person2 AS id FROM knows k JOIN two ON k.person1 = two.id),
reached AS (
    SELECT id, min(distance) AS distance
    FROM (SELECT id, 1 AS distance FROM one UNION ALL SELECT id, 2 FROM two UNION ALL SELECT id, 3 FROM three)
    WHERE id <> $personId GROUP BY id
), found AS (
    SELECT p.*, r.distance FROM reached r JOIN person p ON p.id = r.id WHERE p.firstName = $firstName
    ORDER BY r.distance, p.lastName, p.id LIMIT 20
)
SELECT f.id, f.lastName, f.distance, f.birthday, f.creationDate, f.gender, f.browserUsed, f.locationIP, f.emails,
    f.languages, c.name,
    (SELECT coalesce(list(u.name || ', ' || s.classYear || ', ' || place.name ORDER BY u.name, s.classYear, place.name), [])
     FROM study_at s JOIN university u ON u.id = s.university JOIN city place ON place.id = u.city WHERE s.person = f.id),
    (SELECT coalesce(list(o.name || ', ' || w.workFrom || ', ' || place.name ORDER BY o.name, w.workFrom, place.name), [])
     FROM work_at w JOIN company o ON o.id = w.company JOIN country place ON place.id = o.country WHERE w.person = f.id)
FROM found f JOIN city c ON c.id = f.city ORDER BY f.distance, f.lastName, f.id;

-- name: ic2
SELECT p.id, p.firstName, p.lastName, m.id, coalesce(m.content, m.imageFile), m.creationDate
FROM knows k JOIN person p ON p.id = k.person2 JOIN message m ON m.creator = p.id
WHERE k.person1 = $personId AND m.creationDate <= $maxDate
ORDER BY m.creationDate DESC, m.id LIMIT 20;

-- name: ic3
WITH one AS (SELECT person2 AS id FROM knows WHERE person1 = $personId),
near AS (
    SELECT id FROM one UNION SELECT k.person2 FROM knows k JOIN one ON k.person1 = one.id
), foreign_people AS (
    SELECT p.id, p.firstName, p.lastName FROM near JOIN person p ON p.id = near.id JOIN city c ON c.id = p.city
    JOIN country h ON h.id = c.country
    WHERE p.id <> $personId AND h.name NOT IN ($countryXName, $countryYName)
)
SELECT f.id, f.firstName, f.lastName, count(*) FILTER (a.name = $countryXName) AS x,
    count(*) FILTER (a.name = $countryYName) AS y, count(*)
FROM foreign_people f JOIN message m ON m.creator = f.id JOIN country a ON a.id = m.country
WHERE m.creationDate >= $startDate AND m.creationDate < $endDate AND a.name IN ($countryXName, $countryYName)
GROUP BY ALL HAVING x > 0 AND y > 0 ORDER BY x DESC, f.id LIMIT 20;

-- name: ic4
SELECT t.name, count(*) FILTER (m.creationDate >= $startDate) AS posts
FROM knows k JOIN message m ON m.creator = k.person2 JOIN message_tag mt ON mt.message = m.id JOIN tag t ON t.id = mt.tag
WHERE k.person1 = $personId AND m.reply_of IS NULL AND m.creationDate < $endDate
GROUP BY t.id, t.name HAVING count(*) FILTER (m.creationDate < $startDate) = 0 ORDER BY posts DESC, t.name LIMIT 10;

-- name: ic5
WITH one AS (SELECT person2 AS id FROM knows WHERE person1 = $personId),
near AS (
    SELECT id FROM (SELECT id FROM one UNION SELECT k.person2 FROM knows k JOIN one ON k.person1 = one.id)
    WHERE id <> $personId
), joined AS (
    SELECT b.forum, b.person FROM near JOIN member b ON b.person = near.id WHERE b.joinDate > $minDate
), written AS (
    SELECT j.forum, count(*) AS posts FROM joined j JOIN message m ON m.forum = j.forum AND m.creator = j.person
    GROUP BY j.forum
)
SELECT f.title, f.id, coalesce(w.posts, 0) AS posts
FROM (SELECT DISTINCT forum FROM joined) j JOIN forum f ON f.id = j.forum LEFT JOIN written w ON w.forum = j.forum
ORDER BY posts DESC, f.id LIMIT 20;

-- name: ic6
WITH one AS (SELECT person2 AS id FROM knows WHERE person1 = $personId),
near AS (
    SELECT id FROM (SELECT id FROM one UNION SELECT k.person2 FROM knows k JOIN one ON k.person1 = one.id)
    WHERE id <> $personId
), posts AS (
    SELECT m.id FROM tag g JOIN message_tag mt ON mt.tag = g.id JOIN message m ON m.id = mt.message
    JOIN near ON near.id = m.creator WHERE g.name = $tagName AND m.reply_of IS NULL
)
SELECT t.name, count(*) AS posts
FROM posts p JOIN message_tag mt ON mt.message = p.id JOIN tag t ON t.id = mt.tag
WHERE t.name <> $tagName GROUP BY t.id, t.name ORDER BY posts DESC, t.name LIMIT 10;

-- name: ic7
WITH latest AS (
    SELECT l.person, l.creationDate AS liked, m.id, coalesce(m.content, m.imageFile) AS content, m.creationDate,
        row_number() OVER (PARTITION BY l.person ORDER BY l.creationDate DESC, m.id) AS place
    FROM message m JOIN likes l ON l.message = m.id WHERE m.creator = $personId
)
SELECT p.id, p.firstName, p.lastName, l.liked, l.id, l.content,
    (epoch_ms(l.liked) - epoch_ms(l.creationDate)) // 60000,
    NOT EXISTS (SELECT 1 FROM knows k WHERE k.person1 = $personId AND k.person2 = p.id)
FROM latest l JOIN person p ON p.id = l.person WHERE l.place = 1 ORDER BY l.liked DESC, p.id LIMIT 20;

-- name: ic8
SELECT p.id, p.firstName, p.lastName, r.creationDate, r.id, coalesce(r.content, r.imageFile)
FROM message m JOIN message r ON r.reply_of = m.id JOIN person p ON p.id = r.creator
WHERE m.creator = $personId ORDER BY r.creationDate DESC, r.id LIMIT 20;

-- name: ic9
WITH one AS (SELECT person2 AS id FROM knows WHERE person1 = $personId),
near AS (
    SELECT id FROM (SELECT id FROM one UNION SELECT k.person2 FROM knows k JOIN one ON k.person1 = one.id)
    WHERE id <> $personId
)
SELECT p.id, p.firstName, p.lastName, m.id, coalesce(m.content, m.imageFile), m.creationDate
FROM near JOIN person p ON p.id = near.id JOIN message m ON m.creator = p.id
WHERE m.creationDate < $maxDate ORDER BY m.creationDate DESC, m.id LIMIT 20;

-- name: ic10
WITH one AS (SELECT person2 AS id FROM knows WHERE person1 = $personId),
far AS (
    SELECT DISTINCT k.person2 AS id FROM knows k JOIN one ON k.person1 = one.id
    WHERE k.person2 <> $personId AND k.person2 NOT IN (SELECT id FROM one)
), people AS (
    SELECT p.* FROM far JOIN person p ON p.id = far.id
    WHERE (month(p.birthday) = $month AND day(p.birthday) >= 21)
        OR (month(p.birthday) = $month % 12 + 1 AND day(p.birthday) < 22)
), scores AS (
    SELECT m.creator, sum(CASE WHEN m.id IN (
        SELECT mt.message FROM message_tag mt JOIN interest i ON i.tag = mt.tag WHERE i.person = $personId
    ) THEN 1 ELSE -1 END) AS score
    FROM people JOIN message m ON m.creator = people.id WHERE m.reply_of IS NULL GROUP BY m.creator
)
SELECT p.id, p.firstName, p.lastName, CAST(coalesce(s.score, 0) AS BIGINT) AS score, p.gender, c.name
FROM people p JOIN city c ON c.id = p.city LEFT JOIN scores s ON s.creator = p.id
ORDER BY score DESC, p.id LIMIT 10;

-- name: ic11
WITH one AS (SELECT person2 AS id FROM knows WHERE person1 = $personId),
near AS (
    SELECT id FROM (SELECT id FROM one UNION SELECT k.person2 FROM knows k JOIN one ON k.person1 = one.id)
    WHERE id <> $personId
)
SELECT p.id, p.firstName, p.lastName, o.name, w.workFrom
FROM near JOIN person p ON p.id = near.id JOIN work_at w ON w.person = p.id JOIN company o ON o.id = w.company
JOIN country c ON c.id = o.country WHERE c.name = $countryName AND w.workFrom < $workFromYear
ORDER BY w.workFrom, p.id, o.name DESC LIMIT 10;

-- name: ic12
WITH RECURSIVE classes(id) AS (
    SELECT id FROM tag_class WHERE name = $tagClassName
    UNION SELECT c.id FROM classes JOIN tag_class c ON c.parent = classes.id
)
SELECT p.id, p.firstName, p.lastName, list_sort(list(DISTINCT t.name)), count(DISTINCT r.id) AS replies
FROM knows k JOIN person p ON p.id = k.person2 JOIN message r ON r.creator = p.id JOIN message m ON m.id = r.reply_of
JOIN message_tag mt ON mt.message = m.id JOIN tag t ON t.id = mt.tag JOIN classes c ON c.id = t.class
WHERE k.person1 = $personId AND m.reply_of IS NULL
GROUP BY p.id, p.firstName, p.lastName ORDER BY replies DESC, p.id LIMIT 20;

-- name: ic13
WITH RECURSIVE reached(id, distance) USING KEY (id) AS (
    SELECT CAST($person1Id AS BIGINT), 0
    UNION SELECT k.person2, r.distance + 1 FROM reached r JOIN knows k ON k.person1 = r.id
    WHERE k.person2 NOT IN (SELECT id FROM recurring.reached)
        AND $person2Id NOT IN (SELECT id FROM recurring.reached)
)
SELECT coalesce((SELECT distance FROM reached WHERE id = $person2Id), -1);

-- name: ic14
WITH RECURSIVE reached(id, distance) USING KEY (id) AS (
    SELECT CAST($person1Id AS BIGINT), 0
    UNION SELECT k.person2, r.distance + 1 FROM reached r JOIN knows k ON k.person1 = r.id
    WHERE k.person2 NOT IN (SELECT id FROM recurring.reached)
        AND $person2Id NOT IN (SELECT id FROM recurring.reached)
), paths(path, tip, distance) AS (
    SELECT [id], id, distance FROM reached WHERE id = $person2Id
    UNION ALL SELECT list_prepend(k.person2, p.path), k.person2, r.distance
    FROM paths p JOIN knows k ON k.person1 = p.tip JOIN reached r ON r.id = k.person2 AND r.distance = p.distance - 1
), pairs AS (
    SELECT DISTINCT path[hop] AS one, path[hop + 1] AS other
    FROM (SELECT path, unnest(range(1, len(path))) AS hop FROM paths WHERE distance = 0)
), replies AS (
    SELECT q.one, q.other, CASE WHEN m.reply_of IS NULL THEN 1.0 ELSE 0.5 END AS weight
    FROM (SELECT one, other, one AS a, other AS b FROM pairs UNION ALL SELECT one, other, other, one FROM pairs) q
    JOIN message r ON r.creator = q.a JOIN message m ON m.id = r.reply_of AND m.creator = q.b
), weights AS (
    SELECT one, other, sum(weight) AS weight FROM replies GROUP BY one, other
)
SELECT CAST(p.path AS VARCHAR[]), CAST(coalesce(sum(w.weight), 0) AS DOUBLE) AS weight
FROM (SELECT path, unnest(range(1, len(path))) AS hop FROM paths WHERE distance = 0) p
LEFT JOIN weights w ON w.one = p.path[p.hop] AND w.other = p.path[p.hop + 1]
GROUP BY p.path ORDER BY weight DESC, p.path;
