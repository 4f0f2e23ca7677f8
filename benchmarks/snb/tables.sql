-- The tables of DuckDB: as relational forms of the benchmark have them, with the one end of an edge to one node as a
-- column, and with friendships in both directions. `{folder}` has the Parquet files.
CREATE TABLE person AS SELECT n.* REPLACE (make_timestamp_ms(epoch_ms(n.creationDate)) AS creationDate), e."to" AS city FROM '{folder}/Person.parquet' n JOIN '{folder}/LivesIn.parquet' e ON e."from" = n.id ORDER BY n.id;
CREATE TABLE forum AS SELECT n.* REPLACE (make_timestamp_ms(epoch_ms(n.creationDate)) AS creationDate), e."to" AS moderator FROM '{folder}/Forum.parquet' n JOIN '{folder}/HasModerator.parquet' e ON e."from" = n.id ORDER BY n.id;
CREATE TABLE message AS SELECT n.* REPLACE (make_timestamp_ms(epoch_ms(n.creationDate)) AS creationDate), c."to" AS creator, l."to" AS country, r."to" AS reply_of, f."from" AS forum
    FROM '{folder}/Message.parquet' n
    JOIN '{folder}/HasCreator.parquet' c ON c."from" = n.id
    JOIN '{folder}/IsLocatedIn.parquet' l ON l."from" = n.id
    LEFT JOIN '{folder}/ReplyOf.parquet' r ON r."from" = n.id
    LEFT JOIN '{folder}/ContainerOf.parquet' f ON f."to" = n.id
    ORDER BY n.id;
CREATE TABLE tag AS SELECT n.*, e."to" AS class FROM '{folder}/Tag.parquet' n JOIN '{folder}/HasType.parquet' e ON e."from" = n.id;
CREATE TABLE tag_class AS SELECT n.*, e."to" AS parent FROM '{folder}/TagClass.parquet' n LEFT JOIN '{folder}/IsSubclassOf.parquet' e ON e."from" = n.id;
CREATE TABLE city AS SELECT n.*, e."to" AS country FROM '{folder}/City.parquet' n JOIN '{folder}/CityIsPartOf.parquet' e ON e."from" = n.id;
CREATE TABLE country AS SELECT * FROM '{folder}/Country.parquet';
CREATE TABLE university AS SELECT n.*, e."to" AS city FROM '{folder}/University.parquet' n JOIN '{folder}/UniversityIsIn.parquet' e ON e."from" = n.id;
CREATE TABLE company AS SELECT n.*, e."to" AS country FROM '{folder}/Company.parquet' n JOIN '{folder}/CompanyIsIn.parquet' e ON e."from" = n.id;
CREATE TABLE knows AS SELECT person1, person2, creationDate FROM (
    SELECT "from" AS person1, "to" AS person2, make_timestamp_ms(epoch_ms(creationDate)) AS creationDate FROM '{folder}/Knows.parquet'
    UNION ALL SELECT "to", "from", make_timestamp_ms(epoch_ms(creationDate)) FROM '{folder}/Knows.parquet') ORDER BY person1, person2;
CREATE TABLE interest AS SELECT "from" AS person, "to" AS tag FROM '{folder}/HasInterest.parquet';
CREATE TABLE study_at AS SELECT "from" AS person, "to" AS university, classYear FROM '{folder}/StudyAt.parquet';
CREATE TABLE work_at AS SELECT "from" AS person, "to" AS company, workFrom FROM '{folder}/WorkAt.parquet';
CREATE TABLE likes AS SELECT "from" AS person, "to" AS message, make_timestamp_ms(epoch_ms(creationDate)) AS creationDate FROM '{folder}/Likes.parquet' ORDER BY message;
CREATE TABLE member AS SELECT "from" AS forum, "to" AS person, make_timestamp_ms(epoch_ms(joinDate)) AS joinDate FROM '{folder}/HasMember.parquet' ORDER BY person;
CREATE TABLE message_tag AS SELECT "from" AS message, "to" AS tag FROM '{folder}/HasTag.parquet' ORDER BY message;
CREATE UNIQUE INDEX person_id ON person(id);
CREATE UNIQUE INDEX forum_id ON forum(id);
CREATE UNIQUE INDEX message_id ON message(id);
CREATE INDEX message_creator ON message(creator);
CREATE INDEX message_reply_of ON message(reply_of);
CREATE INDEX knows_person1 ON knows(person1);
CREATE INDEX interest_person ON interest(person);
CREATE INDEX likes_message ON likes(message);
CREATE INDEX member_person ON member(person);
CREATE INDEX message_tag_message ON message_tag(message);
CREATE INDEX message_tag_tag ON message_tag(tag);
